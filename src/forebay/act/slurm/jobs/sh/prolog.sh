#!/bin/sh
# Before each job: its folder's layout, its targets, and its variables. Slurm runs this as root:
#   PrologSlurmctld=FILE   on the controller, once for a job; or
#   Prolog=FILE            on every node of the job, where the controller does not see the file system.
# It always ends with 0: Slurm takes a node out of service whose prolog fails.
@HOOK@
