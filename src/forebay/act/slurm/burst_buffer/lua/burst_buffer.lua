-- Provides Slurm's burst buffers as grants of Forebay. `forebay slurm install` writes this file.
--
-- job_process, pools and paths run inside slurmctld: each makes one short call and starts no process.
-- The other hooks run outside it. Later versions of Slurm pass more arguments, which `...` takes.
--
-- What Slurm does when a hook fails:
--   job_process         refuses the job
--   pools               keeps the pools that it knows; at its start, disables burst buffers
--   setup, data_in,     holds the job and calls teardown; `scontrol release` starts over
--   real_size
--   paths               holds the job until it is cancelled. So paths never fails
--   pre_run             calls teardown and starts over; after the fourth failure, holds the job
--   post_run, data_out  calls teardown
--   teardown            retries it twice, and then forgets the burst buffer

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay.lua")
local settings = forebay.settings

local WAIT = 20 -- seconds of one long call beside it
local STAGE_OUT = 12 * 3600 -- seconds that a stage-out waits for a service that does not answer

local function fail(job, hook, why)
  local line = forebay.format_line(why)
  slurm.log_info("forebay: job %s: %s: %s", tostring(job), hook, line)
  return slurm.ERROR, line
end

local function call_patiently(method, path, body, seconds)
  return forebay.call_patiently(method, path, body, settings.patience, seconds)
end

local function call_for_stage_out(method, path, body, seconds)
  return forebay.call_patiently(method, path, body, STAGE_OUT, seconds)
end

-- Slurm holds a job whose set-up fails. So set-up waits for a service that does not answer as long as for space.
local function call_for_space(method, path, body)
  return forebay.call_patiently(method, path, body, math.max(settings.patience, settings.wait))
end


-- Slurm's backfill gives a year to a job without a limit in a partition without one.
local YEAR = 365 * 86400
local function finite_limit(seconds)
  return seconds and seconds < YEAR and seconds or nil
end

local function run_slurm(command)
  local conf = settings.conf ~= "" and "SLURM_CONF=" .. forebay.quote(settings.conf) .. " " or ""
  return forebay.run_command(conf .. "timeout 20 " .. command)
end

-- Returns the job's time limit in seconds (nil: none) and its state, from Slurm.
local function query_job(job, info)
  if type(info) == "table" and tonumber(info.time_limit) then return finite_limit(info.time_limit * 60), "PENDING" end
  local output, fine = run_slurm("squeue -h -j " .. forebay.quote(job) .. " -o '%l %T'")
  local limit, state = output:match("^(%S+) (%S+)")
  if not fine or not limit then return nil, "" end
  return finite_limit(forebay.parse_time_limit(limit)), state
end

-- Returns the seconds for which a job needs its space from its start, including stage-out.
local function needed_seconds(request, limit)
  return (request.time or limit or settings.time) + settings.margin
end

-- Limits the seconds to the longest time of a grant: a job with a longer limit gets its space for that time only.
local function limit_seconds(seconds)
  local rules = call_patiently("GET", "/v1/rules", nil)
  return math.min(seconds, type(rules) == "table" and tonumber(rules.longest) or seconds)
end

local function read_request(script)
  local text, why = forebay.read_file(script)
  if not text then return nil, "cannot read the job's script: " .. why end
  local request, wrong = forebay.parse_request(text)
  return request, wrong or "the script has no #" .. forebay.DIRECTIVE .. " line at its top; add one"
end

-- Refuses an invalid request, and one that can never be granted. If the service does not answer, it accepts the job.
function slurm_bb_job_process(script, ...)
  local request, wrong = read_request(script)
  if not request then return fail("(new)", "job_process", wrong) end
  if not request.same then
    return fail("(new)", "job_process", "capacity: Slurm cannot read '" .. request.text ..
      "'; write a whole number with kB to PB or KiB to PiB")
  end
  local never, away = forebay.find_refusal(request)
  if never then return fail("(new)", "job_process", never) end
  if away then slurm.log_info("forebay: accepted a job without a check: %s", away) end
  return slurm.SUCCESS
end

local function pools_text(tiers, with_free)
  local pools = {}
  for _, tier in ipairs(tiers) do
    local free = math.max(0, math.min(tier.free, tier.total))
    pools[#pools + 1] = string.format('{"id":"%s","granularity":1,"quantity":%s%s}', tier.name:gsub("[^%w._-]", "_"),
      forebay.format_number(tier.total), with_free and ',"free":' .. forebay.format_number(free) or "")
  end
  return '{"pools":[' .. table.concat(pools, ",") .. "]}"
end

local function write_cache(text)
  if settings.cache == "" or forebay.read_file(settings.cache) == text then return end
  local file = io.open(settings.cache .. ".new", "w")
  if file then
    file:write(text)
    file:close()
    os.rename(settings.cache .. ".new", settings.cache)
  end
end

-- Returns the tiers as Slurm's pools. If the service does not answer, the pools do not change: a slurmctld that starts
-- then reads them from the cache and accepts jobs. (If this failed at its start, it would forget its burst buffers.)
function slurm_bb_pools(...)
  local tiers, wrong = forebay.list_tiers(forebay.call_inside)
  if tiers then
    write_cache(pools_text(tiers, false))
    return slurm.SUCCESS, pools_text(tiers, true)
  end
  slurm.log_info("forebay: cannot update the pools: %s", wrong)
  local known = settings.cache ~= "" and forebay.read_file(settings.cache)
  return slurm.SUCCESS, known or pools_text({ { name = forebay.ANY, total = 0, free = 0 } }, false)
end

local NO_GRANT = "the job no longer has a grant"

local function release(grant, because)
  return call_patiently("POST", "/v1/grants/" .. grant.id .. "/release", { because = because })
end

-- Returns the grant of a job that is being set up: an existing one (the third value is true), or a new one.
local function request_grant(job, uid, gid, request, limit)
  local old, count, wrong = forebay.find_grant(job, call_for_space)
  if wrong then return nil, wrong end
  if old and tonumber(old.uid) == tonumber(uid) and old.size == request.capacity then return old, nil, true end
  if old then release(old, "another request has the same job number") end
  local seconds = needed_seconds(request, limit) + settings.queue
  local longest = limit_seconds(seconds)
  if request.time and request.time > longest then longest = seconds end -- so that the service refuses it with a reason
  return forebay.parse_grant(call_for_space("POST", "/v1/grants", {
    key = forebay.grant_key(job) .. (count > 0 and "." .. (count + 1) or ""),
    job = tostring(job), uid = tonumber(uid), gid = tonumber(gid), tier = request.tier,
    type = request.type, servers = request.servers, equal = request.equal,
    size = forebay.format_number(request.capacity), -- as text: cjson writes only 14 digits of a number
    seconds = longest,
  }))
end

-- Returns the grant once it is ready; or nil, the reason, and whether the grant has ended.
local function await_grant(grant)
  local core = require("socket.core")
  local stop = core.gettime() + settings.wait
  while grant.state ~= "ready" and grant.state ~= "in-use" do
    if forebay.is_over(grant) then
      return nil, (grant.state == "refused" and "" or grant.state .. ": ") .. tostring(grant.because), true
    end
    local left = stop - core.gettime()
    if left <= 0 then
      release(grant, "its job waited too long")
      local place = tonumber(grant.position) or 0
      return nil, string.format("no space within %ds: %s%s: %s", settings.wait, grant.state,
        place > 0 and ", place " .. forebay.format_number(place) or "", tostring(grant.because))
    end
    local path = string.format("/v1/grants/%s/wait?seconds=%.1f&known=%s", grant.id, math.min(left, WAIT), grant.state)
    local patience = math.max(settings.patience, left)
    local now, wrong = forebay.parse_grant(forebay.call_patiently("GET", path, nil, patience, WAIT + 10))
    if not now then return nil, wrong end
    grant = now
  end
  return grant
end

-- Formats the variables about a job's space, one per line; nil and the reason if Slurm cannot take them.
local function format_environment(grant)
  local lines = { "FOREBAY_GRANT=" .. grant.id }
  if grant.path ~= "" then
    lines[#lines + 1] = "FOREBAY_PATH=" .. grant.path
    lines[#lines + 1] = "FOREBAY_PATHS=" .. table.concat(grant.paths, ":")
  end
  for _, line in ipairs(lines) do -- Slurm counts lines by their equal signs
    if line:find("[%c]") or line:find("=.*=") then return nil, "cannot pass this variable to Slurm: " .. line end
  end
  return table.concat(lines, "\n") .. "\n"
end

function slurm_bb_setup(job, uid, gid, pool, size, script, info, ...)
  forebay.leave_siblings()
  local request, wrong = read_request(script)
  if not request then return fail(job, "setup", wrong) end
  local limit = query_job(job, info)
  local grant, there, why, is_old, is_over
  repeat -- again, if the grant of an earlier set-up ends in the meantime
    grant, why, is_old = request_grant(job, uid, gid, request, limit)
    if not grant then return fail(job, "setup", why) end
    there, why, is_over = await_grant(grant)
  until there or not (is_old and is_over)
  if not there then return fail(job, "setup", why) end
  local _, state = query_job(job, info)
  if state ~= "PENDING" and state ~= "" then -- cancelled, perhaps with a teardown before this grant
    release(there, "its job is " .. state:lower())
    return fail(job, "setup", "the job is " .. state:lower())
  end
  _, why = format_environment(there)
  if why then return fail(job, "setup", why) end
  why = forebay.write_note(job, there, request.time)
  if why then slurm.log_info("forebay: job %s: cannot note its grant: %s", tostring(job), forebay.format_line(why)) end
  slurm.log_info("forebay: job %s has grant %s: %s", tostring(job), there.id, there.path)
  return slurm.SUCCESS
end

-- Finds the grant of a job that is set up: in its note, or else in the service.
local function find_job_grant(job, ask)
  local kept = forebay.read_note(job)
  if kept then return kept end
  local grant, _, wrong = forebay.find_grant(job, ask)
  return grant, not grant and (wrong or NO_GRANT) or nil
end

-- Copies files on this machine, as the user: into the first volume, which is $FOREBAY_PATH, or out of all volumes.
local function copy_here(grant, way, pairs)
  local arguments = { settings.command, "slurm stage", way, "--uid", forebay.format_number(grant.uid),
    "--gid", forebay.format_number(grant.gid) }
  for _, path in ipairs(grant.paths) do arguments[#arguments + 1] = "--volume " .. forebay.quote(path) end
  arguments[#arguments + 1] = "--"
  for _, pair in ipairs(pairs) do
    arguments[#arguments + 1] = forebay.quote(pair[1]) .. " " .. forebay.quote(pair[2])
  end
  local output, fine = forebay.run_command(table.concat(arguments, " "))
  if not fine then return (forebay.format_line(output):gsub("^forebay: ", "")) end
end

local SHOWN = 5 -- seconds between changes of what squeue shows
local FREED = 600 -- seconds that a stage-out waits for the job's nodes

-- Shows the progress as the job's AdminComment. Slurm does not permit that after the end of the job.
local function show_progress(job, way, text)
  if way == "in" then
    run_slurm("scontrol update JobId=" .. forebay.quote(job) .. " AdminComment=" .. forebay.quote(text))
  end
end

-- Waits until the job's nodes have run their epilog: they unmount its space, and other jobs can have them.
local function await_free_nodes(job)
  local core = require("socket.core")
  local stop = core.gettime() + FREED
  while core.gettime() < stop do
    if not run_slurm("squeue -h -j " .. forebay.quote(job) .. " -o %T"):find("COMPLETING", 1, true) then return end
    core.sleep(0.5)
  end
end

-- Has the storage nodes copy, and waits until they have. Returns the error, or nil.
local function copy_on_nodes(job, grant, way, pairs, ask)
  local path = "/v1/grants/" .. grant.id
  local now, wrong = forebay.parse_grant(ask("GET", path, nil))
  if not now then return wrong end
  local staging = forebay.staging_of(now)
  if not staging or staging.state ~= "running" or staging.way ~= way then -- else an earlier call of this hook began it
    local key = string.format("%s-%.6f", way, require("socket.core").gettime())
    now, wrong = forebay.parse_grant(ask("POST", path .. "/stage", { way = way, pairs = pairs, key = key }))
    if not now then return wrong end
    staging = forebay.staging_of(now)
  end
  local shown, at
  while staging and staging.state == "running" and not forebay.is_over(now) do
    if staging.said ~= shown and (not at or os.time() >= at + SHOWN) then
      show_progress(job, way, staging.said)
      shown, at = staging.said, os.time()
    end
    local wait = path .. "/wait?seconds=" .. WAIT .. "&staging=running&known=" .. now.state
    now, wrong = forebay.parse_grant(ask("GET", wait, nil, WAIT + 10))
    if not now then return wrong end
    staging = forebay.staging_of(now)
  end
  if not staging then return "the service forgot what to copy" end
  show_progress(job, way, staging.said)
  if staging.state ~= "done" then return staging.because end
end

-- Copies the files of a job: the storage nodes do it; without the service, this machine, if it has the volumes. If it
-- has not, a stage-out waits long: the job's nodes are already free.
local function stage_files(job, script, option)
  local request, wrong = read_request(script)
  if not request then return wrong end
  if #request[option] == 0 then return nil end
  local grant, why = find_job_grant(job, option == "stage_in" and call_patiently or call_for_stage_out)
  if not grant then return why end
  local way = option == "stage_in" and "in" or "out"
  if way == "out" then await_free_nodes(job) end
  local _, is_here = forebay.run_command("test -d " .. forebay.quote(grant.path))
  is_here = is_here and request.type ~= "shared" and grant.path ~= ""
  local ask = (way == "in" or is_here) and call_patiently or call_for_stage_out
  why = copy_on_nodes(job, grant, way, request[option], ask)
  if forebay.is_away(why) and is_here then return copy_here(grant, way, request[option]) end
  return why
end

function slurm_bb_data_in(job, script, ...)
  forebay.leave_siblings()
  local wrong = stage_files(job, script, "stage_in")
  if wrong then return fail(job, "data_in", wrong) end
  return slurm.SUCCESS
end

-- Returns the actual size. Slurm uses it only if it is larger than the requested size. It must not be larger than the
-- pool: Slurm's count of free space would wrap around.
function slurm_bb_real_size(job, ...)
  local grant, wrong = find_job_grant(job, call_patiently)
  if not grant then return fail(job, "real_size", wrong) end
  local size = tonumber(grant.size)
  if not size or size ~= math.floor(size) or size <= 0 or size >= 2 ^ 53 then
    return fail(job, "real_size", "the service reports an invalid size: " .. tostring(grant.size) .. " bytes")
  end
  return slurm.SUCCESS, forebay.format_number(size)
end

-- Writes the variables about the job's space to Slurm's file. Returns nil or the error.
local function write_environment(job, path_file)
  local grant, wrong = find_job_grant(job, forebay.call_inside)
  if not grant then return wrong end
  local text, why = format_environment(grant)
  if not text then return why end
  local file
  file, why = io.open(path_file, "w")
  if not file then return why end
  file:write(text)
  file:close()
end

-- Without these variables a job does not run: pre_run, which may fail, notices that and starts over.
function slurm_bb_paths(job, script, path_file, ...)
  local fine, wrong = pcall(write_environment, job, path_file)
  if not fine or wrong then
    slurm.log_info("forebay: job %s: paths: %s", tostring(job), forebay.format_line(wrong))
  end
  return slurm.SUCCESS
end

-- Reads the grant in the variables that the job got; nil if it got none.
local function read_given_grant(script)
  local text = forebay.read_file((script:match("^.*/") or "") .. "path")
  return text and text:match("FOREBAY_GRANT=([^\n]+)")
end

-- Marks the space as used, and extends it until `stop`. Returns nil or the error.
local function mark_used(grant, stop)
  local path = "/v1/grants/" .. grant.id
  local wrong = forebay.find_error(call_patiently("POST", path .. "/used", {}))
  if wrong then return wrong end
  local start = tonumber(grant.start)
  stop = start + limit_seconds(stop - start)
  if grant["until"] >= stop then return nil end
  return forebay.find_error(call_patiently("POST", path .. "/extend", { ["until"] = stop }))
end

-- The job starts. If the service does not answer, it starts if its space lasts long enough according to its note.
function slurm_bb_pre_run(job, script, uid, gid, info, ...)
  forebay.leave_siblings()
  local request, wrong = read_request(script)
  if not request then return fail(job, "pre_run", wrong) end
  local grant, _, unknown = forebay.find_grant(job, call_patiently)
  local stop = os.time() + needed_seconds(request, (query_job(job, info)))
  local kept = forebay.read_note(job)
  if not grant and forebay.is_away(unknown) then grant = kept end
  if not grant then return fail(job, "pre_run", unknown or NO_GRANT) end
  if read_given_grant(script) ~= grant.id then
    return fail(job, "pre_run", "the job did not get the path of its space")
  end
  wrong = unknown or mark_used(grant, stop)
  if forebay.is_away(wrong) and kept and kept.id == grant.id and tonumber(kept["until"]) >= stop then
    slurm.log_info("forebay: job %s starts without the service: %s", tostring(job), wrong)
    return slurm.SUCCESS
  end
  if wrong then return fail(job, "pre_run", wrong) end
  return slurm.SUCCESS
end

function slurm_bb_post_run(...)
  return slurm.SUCCESS
end

-- The job's nodes are already free, so this may wait long. Data that is not copied stays.
function slurm_bb_data_out(job, script, ...)
  forebay.leave_siblings()
  local wrong = stage_files(job, script, "stage_out")
  if not wrong then return slurm.SUCCESS end
  forebay.note_failed(job)
  return fail(job, "data_out", wrong)
end

-- Returns whether a stage-out failed: then the data stays until the grant ends, so that the user can copy it.
local function is_kept(job, grant)
  if forebay.has_failed(job) then return true end
  local staging = forebay.staging_of(grant)
  if staging and staging.way == "out" and staging.state == "failed" then return true end
  if grant.path == "" then return false end
  local _, fine = forebay.run_command("test -f " .. forebay.quote(grant.path .. "/" .. settings.kept))
  return fine
end

-- Slurm retries a failed teardown twice. After that, `forebay slurm reconcile` or the grant's end releases the space.
function slurm_bb_job_teardown(job, script, hurry, ...)
  forebay.leave_siblings()
  local grant, _, wrong = forebay.find_grant(job, call_patiently)
  if wrong then return fail(job, "teardown", wrong) end
  if not grant then
    forebay.remove_notes(job)
    return slurm.SUCCESS
  end
  if tostring(hurry) ~= "true" and is_kept(job, grant) then
    slurm.log_info("forebay: job %s: stage-out failed, so grant %s stays until it ends", tostring(job), grant.id)
    return slurm.SUCCESS
  end
  local released, status = release(grant, "its job ended")
  wrong = forebay.find_error(released, status)
  if wrong then return fail(job, "teardown", wrong) end
  forebay.remove_notes(job)
  if released.state == "releasing" and tostring(hurry) ~= "true" then -- so that Slurm counts space that is really free
    forebay.call("GET", "/v1/grants/" .. grant.id .. "/wait?seconds=10&known=releasing", nil, 15)
  end
  return slurm.SUCCESS
end

-- `scontrol show bbstat`.
function slurm_bb_get_status(...)
  local health, status = forebay.call_inside("GET", "/v1/health", nil)
  local wrong = forebay.find_error(health, status)
  if wrong then return slurm.SUCCESS, "forebay: " .. forebay.format_line(wrong) .. "\n" end
  local function count(number) return forebay.format_number(tonumber(number) or 0) end
  local lines = { string.format("forebay %s: %s, policy %s, %s nodes, %s silent", tostring(health.version),
    tostring(health.status), tostring(health.policy), count(health.nodes), count(health.silent)) }
  for _, tier in ipairs(forebay.list_tiers(forebay.call_inside) or {}) do
    lines[#lines + 1] = string.format("%s: %.1f GB free of %.1f GB on %s disks", tier.name, tier.free / 1e9,
      tier.total / 1e9, count(tier.disks))
  end
  local copying = forebay.call_inside("GET", "/v1/grants?staging=true&limit=100", nil)
  for _, grant in ipairs(type(copying) == "table" and type(copying.grants) == "table" and copying.grants or {}) do
    local staging = forebay.staging_of(grant)
    if staging then lines[#lines + 1] = string.format("job %s: %s", tostring(grant.job), tostring(staging.said)) end
  end
  return slurm.SUCCESS, table.concat(lines, "\n") .. "\n"
end

-- Slurm 24.05 and later call these while staging runs elsewhere; ours is complete when data_in and data_out return.
function slurm_bb_test_data_in(...)
  return slurm.SUCCESS, ""
end

function slurm_bb_test_data_out(...)
  return slurm.SUCCESS, ""
end
