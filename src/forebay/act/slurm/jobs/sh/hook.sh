PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
[ -n "${SLURM_CONF:-}" ] || SLURM_CONF=@CONF@
[ -z "$SLURM_CONF" ] || export SLURM_CONF
log=@LOG@
(true >>"$log") 2>/dev/null || log=/dev/null
@FOREBAY@ slurm @NAME@ --config @CONFIG@ >/dev/null 2>>"$log" </dev/null
exit 0
