#!/bin/sh
# After each job: its targets are free again, and its Darshan logs go into the history. Slurm runs this as root:
#   EpilogSlurmctld=FILE   on the controller, once for a job; or
#   Epilog=FILE            on every node of the job.
# It always ends with 0: Slurm takes a node out of service whose epilog fails.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
[ -n "${SLURM_CONF:-}" ] || SLURM_CONF=@CONF@
[ -z "$SLURM_CONF" ] || export SLURM_CONF
log=@LOG@
(true >>"$log") 2>/dev/null || log=/dev/null
@FOREBAY@ slurm epilog --config @CONFIG@ >/dev/null 2>>"$log" </dev/null
exit 0
