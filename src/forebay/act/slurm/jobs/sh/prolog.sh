#!/bin/sh
# Before each job: its folder's layout, its targets, and its variables. Slurm runs this as root:
#   PrologSlurmctld=FILE   on the controller, once for a job; or
#   Prolog=FILE            on every node of the job, where the controller does not see the file system.
# It always ends with 0: Slurm takes a node out of service whose prolog fails.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
[ -n "${SLURM_CONF:-}" ] || SLURM_CONF=@CONF@
[ -z "$SLURM_CONF" ] || export SLURM_CONF
log=@LOG@
(true >>"$log") 2>/dev/null || log=/dev/null
@FOREBAY@ slurm prolog --config @CONFIG@ >/dev/null 2>>"$log" </dev/null
exit 0
