-- Slurm's burst buffers are grants of Forebay. `forebay slurm install` writes this file and explains it.
--
-- job_process, pools and paths run inside slurmctld: one short question each, and no other process is started there.
-- The others run beside it. Later versions of Slurm pass more arguments, which `...` takes.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay.lua")
local settings = forebay.settings

local SHORT = 1 -- seconds that a question may take inside slurmctld
local WAIT = 20 -- seconds of one long question beside it

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

local function quick(method, path, body)
  return forebay.call(method, path, body, SHORT)
end

-- What a command prints, and whether it ended well.
local function run(command)
  local pipe = io.popen(command .. " 2>&1; echo \"=$?\"")
  local text = pipe:read("*a")
  pipe:close()
  local said, code = text:match("^(.*)=(%d+)%s*$")
  return said or text, code == "0"
end

-- The job's time limit in seconds (nil: it has none) and its state, as Slurm knows them now.
local function known(job, info)
  if type(info) == "table" and tonumber(info.time_limit) then
    local minutes = tonumber(info.time_limit)
    return minutes < 2 ^ 31 and minutes * 60 or nil, "PENDING"
  end
  local conf = settings.conf ~= "" and "SLURM_CONF=" .. forebay.quoted(settings.conf) .. " " or ""
  local said, fine = run(conf .. "timeout 20 squeue -h -j " .. forebay.quoted(job) .. " -o '%l %T'")
  local limit, state = said:match("^(%S+) (%S+)")
  if not fine or not limit then return nil, "" end
  return forebay.limit(limit), state
end

-- Seconds for which a job needs its space from its start on, with what stage-out takes.
local function needed(wish, limit)
  return (wish.time or limit or settings.time) + settings.margin
end

local function wish_of(script)
  local text, why = forebay.read(script)
  if not text then return nil, "the job's script can't be read: " .. why end
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
  local found, status = quick("GET", "/v1/tiers", nil)
  local wrong = forebay.wrong(found, status)
  if not wrong then
    remember(pools_text(found.tiers, false))
    return slurm.SUCCESS, pools_text(found.tiers, true)
  end
  slurm.log_info("forebay: pools are as they were: %s", wrong)
  local known = settings.cache ~= "" and forebay.read(settings.cache)
  return slurm.SUCCESS, known or pools_text({ { name = forebay.ANY, total = 0, free = 0 } }, false)
end

local function release(grant, because)
  return patient("POST", "/v1/grants/" .. grant.id .. "/release", { because = because })
end

-- The grant of a job that is being set up: one that it has already, or a new one.
local function asked(job, uid, gid, wish, limit)
  local old, count, wrong = forebay.grant(job, waiting)
  if wrong then return nil, wrong end
  if old and tonumber(old.uid) == tonumber(uid) and old.size == wish.capacity then return old end
  if old then release(old, "another request has its job's number") end
  local found, status = waiting("POST", "/v1/grants", {
    key = forebay.key(job) .. (count > 0 and "." .. (count + 1) or ""),
    job = tostring(job), uid = tonumber(uid), gid = tonumber(gid), tier = wish.tier,
    size = forebay.printed(wish.capacity), -- as text: cjson writes large numbers with 14 digits
    seconds = needed(wish, limit) + settings.queue,
  })
  wrong = forebay.wrong(found, status)
  if wrong then return nil, wrong end
  return found
end

-- The grant once it is ready; nil and why it is not.
local function ready(grant)
  local core = require("socket.core")
  local stop = core.gettime() + settings.wait
  while grant.state ~= "ready" and grant.state ~= "in-use" do
    if forebay.over(grant) then
      return nil, (grant.state == "refused" and "" or grant.state .. ": ") .. grant.because
    end
    local left = stop - core.gettime()
    if left <= 0 then
      release(grant, "its job waited long enough")
      local place = grant.position > 0 and ", place " .. grant.position or ""
      return nil, string.format("no space within %ds: %s%s: %s", settings.wait, grant.state, place, grant.because)
    end
    local path = string.format("/v1/grants/%s/wait?seconds=%.1f&known=%s", grant.id, math.min(left, WAIT), grant.state)
    local found, status = forebay.ask("GET", path, nil, math.max(settings.patience, left), WAIT + 10)
    local wrong = forebay.wrong(found, status)
    if wrong then return nil, wrong end
    grant = found
  end
  return grant
end

function slurm_bb_setup(job, uid, gid, pool, size, script, info, ...)
  local wish, wrong = wish_of(script)
  if not wish then return fail(job, "setup", wrong) end
  local limit = known(job, info)
  local grant, why = asked(job, uid, gid, wish, limit)
  if not grant then return fail(job, "setup", why) end
  local there
  there, why = ready(grant)
  if not there then return fail(job, "setup", why) end
  local _, state = known(job, info)
  if state ~= "PENDING" and state ~= "" then -- cancelled, and its teardown may have come before its grant
    release(there, "its job is " .. state:lower())
    return fail(job, "setup", "the job is " .. state:lower())
  end
  slurm.log_info("forebay: job %s has grant %s: %s", tostring(job), there.id, there.path)
  return slurm.SUCCESS
end

-- Copies as the user, in a process of its own: into the first volume, which is $FOREBAY_PATH; out of all of them.
local function staged(job, script, way)
  local wish, wrong = wish_of(script)
  if not wish then return wrong end
  if #wish[way] == 0 then return nil end
  local grant, _, why = forebay.grant(job, patient)
  if not grant then return why or "the job has no grant any more" end
  local words = { settings.command, "slurm stage", way == "stage_in" and "in" or "out", "--uid",
    forebay.printed(grant.uid), "--gid", forebay.printed(grant.gid) }
  for _, path in ipairs(grant.paths) do words[#words + 1] = "--volume " .. forebay.quoted(path) end
  words[#words + 1] = "--"
  for _, pair in ipairs(wish[way]) do
    words[#words + 1] = forebay.quoted(pair[1]) .. " " .. forebay.quoted(pair[2])
  end
  local said, fine = run(table.concat(words, " "))
  if not fine then return (forebay.line(said):gsub("^forebay: ", "")) end
end

function slurm_bb_data_in(job, script, ...)
  local wrong = staged(job, script, "stage_in")
  if wrong then return fail(job, "data_in", wrong) end
  return slurm.SUCCESS
end

-- What the job really has. Slurm takes it only where it is more than what was asked for, and then must not get a
-- number that is more than its pool: the space that it counts as free would wrap around.
function slurm_bb_real_size(job, ...)
  local grant, _, wrong = forebay.grant(job, patient)
  if not grant then return fail(job, "real_size", wrong or "the job has no grant any more") end
  local size = tonumber(grant.size)
  if not size or size ~= math.floor(size) or size <= 0 or size >= 2 ^ 53 then
    return fail(job, "real_size", "the service says that it has " .. tostring(grant.size) .. " bytes")
  end
  return slurm.SUCCESS, forebay.printed(size)
end

function slurm_bb_paths(job, script, path_file, ...)
  local grant, _, wrong = forebay.grant(job, quick)
  if not grant then return fail(job, "paths", wrong or "the job has no grant any more") end
  local lines = { "FOREBAY_GRANT=" .. grant.id }
  if grant.path ~= "" then
    lines[#lines + 1] = "FOREBAY_PATH=" .. grant.path
    lines[#lines + 1] = "FOREBAY_PATHS=" .. table.concat(grant.paths, ":")
  end
  for _, line in ipairs(lines) do -- Slurm counts lines by their equal signs
    if line:find("[%c]") or line:find("=.*=") then return fail(job, "paths", "can't be told to Slurm: " .. line) end
  end
  local file, why = io.open(path_file, "w")
  if not file then return fail(job, "paths", why) end
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
  return slurm.SUCCESS
end

-- The job begins: its space is in use, and stays until the job's end.
function slurm_bb_pre_run(job, script, uid, gid, info, ...)
  local wish, wrong = wish_of(script)
  if not wish then return fail(job, "pre_run", wrong) end
  local grant
  grant, _, wrong = forebay.grant(job, patient)
  if not grant then return fail(job, "pre_run", wrong or "the job has no grant any more") end
  local limit = known(job, info)
  local stop = os.time() + needed(wish, limit)
  local path = "/v1/grants/" .. grant.id
  local found, status = patient("POST", path .. "/used", {})
  wrong = forebay.wrong(found, status)
  if not wrong and grant["until"] < stop then
    found, status = patient("POST", path .. "/extend", { ["until"] = stop })
    wrong = forebay.wrong(found, status)
  end
  if wrong then return fail(job, "pre_run", wrong) end
  return slurm.SUCCESS
end

function slurm_bb_post_run(...)
  return slurm.SUCCESS
end

function slurm_bb_data_out(job, script, ...)
  local wrong = staged(job, script, "stage_out")
  if wrong then return fail(job, "data_out", wrong) end
  return slurm.SUCCESS
end

-- Whether a stage-out failed: then what it should have copied stays until the grant's end, for its user to rescue.
local function is_kept(grant)
  if grant.path == "" then return false end
  local _, fine = run("test -f " .. forebay.quoted(grant.path .. "/" .. settings.kept))
  return fine
end

-- Slurm tries a failed teardown twice more; what is left after that, `forebay slurm reconcile` or the grant's end takes.
function slurm_bb_job_teardown(job, script, hurry, ...)
  local grant, _, wrong = forebay.grant(job, patient)
  if wrong then return fail(job, "teardown", wrong) end
  if not grant then return slurm.SUCCESS end
  if tostring(hurry) ~= "true" and is_kept(grant) then
    slurm.log_info("forebay: job %s: grant %s stays to its end, as its stage-out failed", tostring(job), grant.id)
    return slurm.SUCCESS
  end
  local found, status = release(grant, "its job ended")
  wrong = forebay.wrong(found, status)
  if wrong then return fail(job, "teardown", wrong) end
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
  local lines = { string.format("forebay %s: %s, policy %s, %d nodes, %d silent", health.version, health.status,
    health.policy, health.nodes, health.silent) }
  local found = quick("GET", "/v1/tiers", nil)
  for _, tier in ipairs(found and found.tiers or {}) do
    lines[#lines + 1] = string.format("%s: %.1f GB free of %.1f GB on %d disks", tier.name, tier.free / 1e9,
      tier.total / 1e9, tier.disks)
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
