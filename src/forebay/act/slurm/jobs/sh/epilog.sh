#!/bin/sh
# After each job: frees its targets and reads its Darshan logs into the history. Slurm runs this as root:
#   EpilogSlurmctld=FILE   on the controller, once per job; or
#   Epilog=FILE            on every node of the job.
# It always exits with 0: Slurm drains a node whose epilog fails.
@HOOK@
