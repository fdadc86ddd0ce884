#!/bin/sh
# Before each job: sets its folder's layout, its targets and its variables. Slurm runs this as root:
#   PrologSlurmctld=FILE   on the controller, once per job; or
#   Prolog=FILE            on every node of the job, if the controller does not mount the file system.
# It always exits with 0: Slurm drains a node whose prolog fails.
@HOOK@
