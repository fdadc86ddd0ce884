#!/bin/sh
# Before each task, as the job's user: the job's variables. Slurm puts what this prints into the task's environment.
#   TaskProlog=FILE
# First it removes the variables of an earlier job, from which this one may have been submitted.
for name in @NAMES@; do
    echo "unset $name"
done
environment=@FOLDER@/${SLURM_JOB_ID:-none}.env
[ -r "$environment" ] && cat "$environment"
exit 0
