-- Slurm's burst buffers are grants of Forebay. `forebay slurm install` writes this file and explains it.
--
-- job_process, pools and paths run inside slurmctld: one short question each, and no other process is started there.
-- The others run beside it. Later versions of Slurm pass more arguments, which `...` takes.
--
-- What Slurm does when a hook fails:
--   job_process         refuses the job
--   pools               goes on with the pools that it knows; at its start, has no burst buffers at all
--   setup, data_in,     holds the job and calls teardown; `scontrol release` begins again
--   real_size
--   paths               holds the job for good: nothing but its end takes it out of that state. So paths never fails
--   pre_run             calls teardown and begins again; holds the job at the fourth time
--   post_run, data_out  calls teardown
--   teardown            tries it twice more, and then forgets the burst buffer

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay.lua")
local settings = forebay.settings

local SHORT = 1 -- seconds that a question may take inside slurmctld
local WAIT = 20 -- seconds of one long question beside it
local STAGE_OUT = 12 * 3600 -- seconds for which a stage-out waits for a service that is away

local function fail(job, hook, why)
  local line = forebay.line(why)
  slurm.log_info("forebay: job %s: %s: %s", tostring(job), hook, line)
  return slurm.ERROR, line
end

local function patient(method, path, body)
  return forebay.ask(method, path, body, settings.patience)
end

-- A job that is being set up would be held if this failed: it may wait for a service that is away as for space.
local function waiting(method, path, body)
  return forebay.ask(method, path, body, math.max(settings.patience, settings.wait))
end

local function very_patient(method, path, body)
  return forebay.ask(method, path, body, STAGE_OUT)
end

local function quick(method, path, body)
  return forebay.call(method, path, body, SHORT)
end

-- A year is what Slurm's backfill gives to a job without a limit where its partition has none either.
local YEAR = 365 * 86400
local function limited(seconds)
  return seconds and seconds < YEAR and seconds or nil
end

-- The job's time limit in seconds (nil: it has none) and its state, as Slurm knows them now.
local function known(job, info)
  if type(info) == "table" and tonumber(info.time_limit) then return limited(info.time_limit * 60), "PENDING" end
  local conf = settings.conf ~= "" and "SLURM_CONF=" .. forebay.quoted(settings.conf) .. " " or ""
  local said, fine = forebay.run(conf .. "timeout 20 squeue -h -j " .. forebay.quoted(job) .. " -o '%l %T'")
  local limit, state = said:match("^(%S+) (%S+)")
  if not fine or not limit then return nil, "" end
  return limited(forebay.limit(limit)), state
end

-- Seconds for which a job needs its space from its start on, with what stage-out takes.
local function needed(wish, limit)
  return (wish.time or limit or settings.time) + settings.margin
end

-- At most as many seconds as a grant may last in all: a job whose limit is longer gets its space for so long.
local function at_most(seconds)
  local rules = patient("GET", "/v1/rules", nil)
  return math.min(seconds, type(rules) == "table" and tonumber(rules.longest) or seconds)
end

local function wish_of(script)
  local text, why = forebay.read(script)
  if not text then return nil, "the job's script cannot be read: " .. why end
  local wish, wrong = forebay.wish(text)
  return wish, wrong or "there is no #" .. forebay.DIRECTIVE .. " line at the top of the script"
end

-- Is a request in order, and could it ever be granted? A service that is away does not keep anybody from submitting.
function slurm_bb_job_process(script, ...)
  local wish, wrong = wish_of(script)
  if not wish then return fail("(new)", "job_process", wrong) end
  if not wish.same then
    return fail("(new)", "job_process", "capacity: Slurm itself reads no '" .. wish.told ..
      "'; write whole numbers with kB to PB or KiB to PiB")
  end
  local never, away = forebay.never(wish, SHORT)
  if never then return fail("(new)", "job_process", never) end
  if away then slurm.log_info("forebay: a job is not checked: %s", away) end
  return slurm.SUCCESS
end

local function pools_text(tiers, with_free)
  local pools = {}
  for _, tier in ipairs(tiers) do
    local free = math.max(0, math.min(tier.free, tier.total))
    pools[#pools + 1] = string.format('{"id":"%s","granularity":1,"quantity":%s%s}', tier.name:gsub("[^%w._-]", "_"),
      forebay.printed(tier.total), with_free and ',"free":' .. forebay.printed(free) or "")
  end
  return '{"pools":[' .. table.concat(pools, ",") .. "]}"
end

local function remember(text)
  if settings.cache == "" or forebay.read(settings.cache) == text then return end
  local file = io.open(settings.cache .. ".new", "w")
  if file then
    file:write(text)
    file:close()
    os.rename(settings.cache .. ".new", settings.cache)
  end
end

-- The tiers as Slurm's pools. Where the service is away they are as they were: a slurmctld that starts meanwhile knows
-- them by the cache, so that it takes jobs. (If this failed at its start, it would forget the burst buffers that it has.)
function slurm_bb_pools(...)
  local tiers, wrong = forebay.tiers(quick)
  if tiers then
    remember(pools_text(tiers, false))
    return slurm.SUCCESS, pools_text(tiers, true)
  end
  slurm.log_info("forebay: pools are as they were: %s", wrong)
  local known = settings.cache ~= "" and forebay.read(settings.cache)
  return slurm.SUCCESS, known or pools_text({ { name = forebay.ANY, total = 0, free = 0 } }, false)
end

local NO_GRANT = "the job no longer has a grant"

local function release(grant, because)
  return patient("POST", "/v1/grants/" .. grant.id .. "/release", { because = because })
end

-- The grant of a job that is being set up: one that it has already (and that this is so), or a new one.
local function asked(job, uid, gid, wish, limit)
  local old, count, wrong = forebay.grant(job, waiting)
  if wrong then return nil, wrong end
  if old and tonumber(old.uid) == tonumber(uid) and old.size == wish.capacity then return old, nil, true end
  if old then release(old, "another request has the same job number") end
  local seconds = needed(wish, limit) + settings.queue
  local longest = at_most(seconds)
  if wish.time and wish.time > longest then longest = seconds end -- which is refused with the reason
  return forebay.granted(waiting("POST", "/v1/grants", {
    key = forebay.key(job) .. (count > 0 and "." .. (count + 1) or ""),
    job = tostring(job), uid = tonumber(uid), gid = tonumber(gid), tier = wish.tier,
    size = forebay.printed(wish.capacity), -- as text: cjson writes large numbers with 14 digits
    seconds = longest,
  }))
end

-- The grant once it is ready; nil and why it is not, and whether it ended.
local function ready(grant)
  local core = require("socket.core")
  local stop = core.gettime() + settings.wait
  while grant.state ~= "ready" and grant.state ~= "in-use" do
    if forebay.over(grant) then
      return nil, (grant.state == "refused" and "" or grant.state .. ": ") .. tostring(grant.because), true
    end
    local left = stop - core.gettime()
    if left <= 0 then
      release(grant, "its job waited too long")
      local place = tonumber(grant.position) or 0
      return nil, string.format("no space within %ds: %s%s: %s", settings.wait, grant.state,
        place > 0 and ", place " .. forebay.printed(place) or "", tostring(grant.because))
    end
    local path = string.format("/v1/grants/%s/wait?seconds=%.1f&known=%s", grant.id, math.min(left, WAIT), grant.state)
    local found, wrong = forebay.granted(forebay.ask("GET", path, nil, math.max(settings.patience, left), WAIT + 10))
    if not found then return nil, wrong end
    grant = found
  end
  return grant
end

-- The lines that tell a job of its space; nil and why it can't be told.
local function environment(grant)
  local lines = { "FOREBAY_GRANT=" .. grant.id }
  if grant.path ~= "" then
    lines[#lines + 1] = "FOREBAY_PATH=" .. grant.path
    lines[#lines + 1] = "FOREBAY_PATHS=" .. table.concat(grant.paths, ":")
  end
  for _, line in ipairs(lines) do -- Slurm counts lines by their equal signs
    if line:find("[%c]") or line:find("=.*=") then return nil, "cannot be passed to Slurm: " .. line end
  end
  return table.concat(lines, "\n") .. "\n"
end

function slurm_bb_setup(job, uid, gid, pool, size, script, info, ...)
  local wish, wrong = wish_of(script)
  if not wish then return fail(job, "setup", wrong) end
  local limit = known(job, info)
  local grant, there, why, is_old, is_over
  repeat -- once more, where what it had from an earlier set-up is taken away now
    grant, why, is_old = asked(job, uid, gid, wish, limit)
    if not grant then return fail(job, "setup", why) end
    there, why, is_over = ready(grant)
  until there or not (is_old and is_over)
  if not there then return fail(job, "setup", why) end
  local _, state = known(job, info)
  if state ~= "PENDING" and state ~= "" then -- cancelled, and its teardown may have come before its grant
    release(there, "its job is " .. state:lower())
    return fail(job, "setup", "the job is " .. state:lower())
  end
  _, why = environment(there)
  if why then return fail(job, "setup", why) end
  why = forebay.keep(job, there, wish.time)
  if why then slurm.log_info("forebay: job %s: its grant could not be noted: %s", tostring(job), forebay.line(why)) end
  slurm.log_info("forebay: job %s has grant %s: %s", tostring(job), there.id, there.path)
  return slurm.SUCCESS
end

-- The grant of a job that is set up: what is kept of it, or else what the service answers.
local function grant_of(job, ask)
  local kept = forebay.kept(job)
  if kept then return kept end
  local grant, _, wrong = forebay.grant(job, ask)
  return grant, not grant and (wrong or NO_GRANT) or nil
end

-- Copies as the user, in a process of its own: into the first volume, which is $FOREBAY_PATH; out of all of them.
local function staged(job, script, way, ask)
  local wish, wrong = wish_of(script)
  if not wish then return wrong end
  if #wish[way] == 0 then return nil end
  local grant, why = grant_of(job, ask)
  if not grant then return why end
  local words = { settings.command, "slurm stage", way == "stage_in" and "in" or "out", "--uid",
    forebay.printed(grant.uid), "--gid", forebay.printed(grant.gid) }
  for _, path in ipairs(grant.paths) do words[#words + 1] = "--volume " .. forebay.quoted(path) end
  words[#words + 1] = "--"
  for _, pair in ipairs(wish[way]) do
    words[#words + 1] = forebay.quoted(pair[1]) .. " " .. forebay.quoted(pair[2])
  end
  local said, fine = forebay.run(table.concat(words, " "))
  if not fine then return (forebay.line(said):gsub("^forebay: ", "")) end
end

function slurm_bb_data_in(job, script, ...)
  local wrong = staged(job, script, "stage_in", patient)
  if wrong then return fail(job, "data_in", wrong) end
  return slurm.SUCCESS
end

-- What the job really has. Slurm takes it only where it is more than what was asked for, and then must not get a
-- number that is more than its pool: the space that it counts as free would wrap around.
function slurm_bb_real_size(job, ...)
  local grant, wrong = grant_of(job, patient)
  if not grant then return fail(job, "real_size", wrong) end
  local size = tonumber(grant.size)
  if not size or size ~= math.floor(size) or size <= 0 or size >= 2 ^ 53 then
    return fail(job, "real_size", "the service reports an invalid size: " .. tostring(grant.size) .. " bytes")
  end
  return slurm.SUCCESS, forebay.printed(size)
end

-- Tells the job of its space by Slurm's file; or why it can't.
local function tell(job, path_file)
  local grant, wrong = grant_of(job, quick)
  if not grant then return wrong end
  local text, why = environment(grant)
  if not text then return why end
  local file
  file, why = io.open(path_file, "w")
  if not file then return why end
  file:write(text)
  file:close()
end

-- A job that is not told of its space does not run without: its pre_run, which may fail, sees it and has it begin again.
function slurm_bb_paths(job, script, path_file, ...)
  local fine, wrong = pcall(tell, job, path_file)
  if not fine or wrong then
    slurm.log_info("forebay: job %s: paths: %s", tostring(job), forebay.line(wrong))
  end
  return slurm.SUCCESS
end

-- The grant that the job was told of; nil if it was told of none.
local function told(script)
  local text = forebay.read((script:match("^.*/") or "") .. "path")
  return text and text:match("FOREBAY_GRANT=([^\n]+)")
end

-- Its space is in use from now on, and stays until `stop`; or why not.
local function use(grant, stop)
  local path = "/v1/grants/" .. grant.id
  local wrong = forebay.wrong(patient("POST", path .. "/used", {}))
  if wrong then return wrong end
  local start = tonumber(grant.start)
  stop = start + at_most(stop - start)
  if grant["until"] >= stop then return nil end
  return forebay.wrong(patient("POST", path .. "/extend", { ["until"] = stop }))
end

-- The job begins. Where the service is away it does so all the same, if what is kept of its grant says that its space
-- lasts for as long as it needs it.
function slurm_bb_pre_run(job, script, uid, gid, info, ...)
  local wish, wrong = wish_of(script)
  if not wish then return fail(job, "pre_run", wrong) end
  local grant, _, unknown = forebay.grant(job, patient)
  local stop = os.time() + needed(wish, (known(job, info)))
  local kept = forebay.kept(job)
  if not grant and forebay.is_away(unknown) then grant = kept end
  if not grant then return fail(job, "pre_run", unknown or NO_GRANT) end
  if told(script) ~= grant.id then return fail(job, "pre_run", "the job was not given the path of its space") end
  wrong = unknown or use(grant, stop)
  if forebay.is_away(wrong) and kept and kept.id == grant.id and tonumber(kept["until"]) >= stop then
    slurm.log_info("forebay: job %s begins without the service: %s", tostring(job), wrong)
    return slurm.SUCCESS
  end
  if wrong then return fail(job, "pre_run", wrong) end
  return slurm.SUCCESS
end

function slurm_bb_post_run(...)
  return slurm.SUCCESS
end

-- The job's nodes are free by now, so this may wait for long; what is not copied stays.
function slurm_bb_data_out(job, script, ...)
  local wrong = staged(job, script, "stage_out", very_patient)
  if not wrong then return slurm.SUCCESS end
  forebay.note_failed(job)
  return fail(job, "data_out", wrong)
end

-- Whether a stage-out failed: then what it should have copied stays until the grant's end, for its user to rescue.
local function is_kept(job, grant)
  if forebay.has_failed(job) then return true end
  if grant.path == "" then return false end
  local _, fine = forebay.run("test -f " .. forebay.quoted(grant.path .. "/" .. settings.kept))
  return fine
end

-- Slurm tries a failed teardown twice more; what is left after that, `forebay slurm reconcile` or the grant's end takes.
function slurm_bb_job_teardown(job, script, hurry, ...)
  local grant, _, wrong = forebay.grant(job, patient)
  if wrong then return fail(job, "teardown", wrong) end
  if not grant then
    forebay.forget(job)
    return slurm.SUCCESS
  end
  if tostring(hurry) ~= "true" and is_kept(job, grant) then
    slurm.log_info("forebay: job %s: grant %s stays to its end, as its stage-out failed", tostring(job), grant.id)
    return slurm.SUCCESS
  end
  local found, status = release(grant, "its job ended")
  wrong = forebay.wrong(found, status)
  if wrong then return fail(job, "teardown", wrong) end
  forebay.forget(job)
  if found.state == "releasing" and tostring(hurry) ~= "true" then -- so that Slurm counts space that is really free
    forebay.call("GET", "/v1/grants/" .. grant.id .. "/wait?seconds=10&known=releasing", nil, 15)
  end
  return slurm.SUCCESS
end

-- `scontrol show bbstat`.
function slurm_bb_get_status(...)
  local health, status = quick("GET", "/v1/health", nil)
  local wrong = forebay.wrong(health, status)
  if wrong then return slurm.SUCCESS, "forebay: " .. forebay.line(wrong) .. "\n" end
  local function count(number) return forebay.printed(tonumber(number) or 0) end
  local lines = { string.format("forebay %s: %s, policy %s, %s nodes, %s silent", tostring(health.version),
    tostring(health.status), tostring(health.policy), count(health.nodes), count(health.silent)) }
  for _, tier in ipairs(forebay.tiers(quick) or {}) do
    lines[#lines + 1] = string.format("%s: %.1f GB free of %.1f GB on %s disks", tier.name, tier.free / 1e9,
      tier.total / 1e9, count(tier.disks))
  end
  return slurm.SUCCESS, table.concat(lines, "\n") .. "\n"
end

-- Asked by Slurm 24.05 and later while a stage runs elsewhere; ours are done when data_in and data_out return.
function slurm_bb_test_data_in(...)
  return slurm.SUCCESS, ""
end

function slurm_bb_test_data_out(...)
  return slurm.SUCCESS, ""
end
