#!/bin/sh
# Before each task, as the job's user: prints the job's variables, which Slurm puts into the task's environment.
#   TaskProlog=FILE
# First it removes the variables of another job that may have submitted this one.
for name in @NAMES@; do
    echo "unset $name"
done
environment=@FOLDER@/${SLURM_JOB_ID:-none}.env
[ -r "$environment" ] && cat "$environment"
exit 0
