-- Checks requests for burst buffers at submission: refuses an invalid request with one line, and adds the options that
-- Slurm needs to a valid one. `forebay slurm install` writes this file.
--
-- A site that already has a job_submit.lua keeps it and calls `submit` in it:
--   local forebay = dofile("/etc/slurm/forebay_submit.lua")
--   ... local wrong = forebay.submit(job_desc); if wrong then slurm.log_user("%s", wrong); return slurm.ERROR end

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay_submit.lua")

function slurm_job_submit(job_desc, ...)
  local wrong, added = forebay.submit(job_desc)
  if wrong then
    slurm.log_user("burst buffer: %s", wrong)
    return slurm.ERROR
  end
  if added then slurm.log_user("burst buffer: %s", added) end
  return slurm.SUCCESS
end

function slurm_job_modify(...)
  return slurm.SUCCESS
end

return slurm.SUCCESS
