#!/bin/sh
# After each job: its targets are free again, and its Darshan logs go into the history. Slurm runs this as root:
#   EpilogSlurmctld=FILE   on the controller, once for a job; or
#   Epilog=FILE            on every node of the job.
# It always ends with 0: Slurm takes a node out of service whose epilog fails.
@HOOK@
