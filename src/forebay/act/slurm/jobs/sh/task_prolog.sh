#!/bin/sh
# Before each task, as the job's user: what the job is told. Slurm puts what this prints into the task's environment.
#   TaskProlog=FILE
# Of an earlier job, in which this one may have been submitted, nothing is left.
for name in @NAMES@; do
    echo "unset $name"
done
told=@TOLD@/${SLURM_JOB_ID:-none}.env
[ -r "$told" ] && cat "$told"
exit 0
