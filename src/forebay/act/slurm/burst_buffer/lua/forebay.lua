-- Functions that burst_buffer.lua and job_submit.lua share. The settings are in forebay_settings.lua beside this file.
--
-- For Lua 5.1 to 5.4. Each call has a time limit, as some callers run inside slurmctld.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local settings = dofile(here .. "forebay_settings.lua")

local forebay = { settings = settings, DIRECTIVE = "BB_LUA", ANY = "any" }

-- The end of each message about a service that does not answer, or whose answer is invalid: `forebay slurm reconcile`
-- releases jobs that Slurm holds with this message.
local AWAY = " [service-away]"

-- Texts

-- Formats a text as one line, short enough for Slurm's Reason.
function forebay.format_line(text)
  return (tostring(text):gsub("[%s%c]+", " "):gsub("^ ", ""):gsub(" $", ""):sub(1, 300))
end

local function quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function format_number(number)
  return string.format("%.0f", number)
end

-- Sizes and times, in the units of the `forebay` command: GB is 1e9, GiB is 2^30

local PREFIXES = {
  [""] = 1, k = 1e3, m = 1e6, g = 1e9, t = 1e12, p = 1e15,
  ki = 2 ^ 10, mi = 2 ^ 20, gi = 2 ^ 30, ti = 2 ^ 40, pi = 2 ^ 50,
}
local SECONDS = { [""] = 1, s = 1, ms = 1e-3, us = 1e-6, min = 60, m = 60, h = 3600, d = 86400 }

local function parse_quantity(text)
  local digits, unit = text:match("^([-+]?[%d.]+[eE][-+]?%d+)([A-Za-z]*)$")
  if not digits then digits, unit = text:match("^([-+]?[%d.]+)([A-Za-z]*)$") end
  return digits and not digits:find("x") and tonumber(digits), unit
end

-- Returns the bytes, and whether Slurm reads the text as the same size; or nil and the error.
function forebay.parse_size(text)
  local number, unit = parse_quantity(text)
  if not number then return nil, "'" .. text .. "' is not a number with a unit such as 500GB or 2TiB" end
  local prefix, factor = unit:match("^(.-)B$"), 1
  if not prefix then prefix, factor = unit:match("^(.-)bit$"), 0.125 end
  if unit == "" then prefix, factor = "", 1 end
  local scale = prefix and PREFIXES[prefix:lower()]
  if not scale then return nil, "'" .. text .. "' has an unknown unit; write a size such as 500GB or 2TiB" end
  local bytes = math.ceil(number * scale * factor)
  if bytes <= 0 then return nil, "must be above 0, not '" .. text .. "'" end
  if bytes >= 2 ^ 53 then return nil, "is too large: '" .. text .. "'" end
  return bytes, text:match("^%d+[kmgtpKMGTP]?i?B?$") ~= nil and factor == 1 and (unit == "" or unit:match("B$") ~= nil)
end

-- Returns the seconds, or nil and the error.
function forebay.parse_duration(text)
  local number, unit = parse_quantity(text)
  if not number or not SECONDS[unit] then
    return nil, "'" .. text .. "' is not a duration such as 90min, 2h or 1d"
  end
  local seconds = number * SECONDS[unit]
  if seconds <= 0 or seconds > 3650 * 86400 then return nil, "must be above 0 and at most 3650d, not '" .. text .. "'" end
  return seconds
end

-- Parses a time limit of squeue (days-hours:minutes:seconds) into seconds; nil if there is none.
function forebay.parse_time_limit(text)
  local days, rest = text:match("^(%d+)%-(.*)$")
  local parts = {}
  for part in (rest or text):gmatch("[^:]+") do
    if not part:match("^%d+$") then return nil end
    parts[#parts + 1] = tonumber(part)
  end
  if #parts == 0 or #parts > 3 then return nil end
  local seconds = 0
  for _, part in ipairs(parts) do seconds = seconds * 60 + part end
  if #parts == 1 then seconds = seconds * (days and 3600 or 60) end
  if #parts == 2 and days then seconds = seconds * 60 end
  return seconds + (tonumber(days) or 0) * 86400
end

-- Directives

local function is_inside(path)
  if path == "" or path:sub(1, 1) == "/" then return false end
  for part in path:gmatch("[^/]+") do
    if part == ".." then return false end
  end
  return true
end

local function parse_stage_in(value)
  local source, name = value:match("^(/[^:]*):(.*)$")
  if not source then source, name = value, value:gsub("/+$", ""):match("([^/]+)$") end
  if source:sub(1, 1) ~= "/" then return nil, "'" .. value .. "': needs an absolute path: stage_in=/PATH[:NAME]" end
  if not name or not is_inside(name) then
    return nil, "'" .. value .. "': NAME must be a path inside the burst buffer: stage_in=/PATH:NAME"
  end
  return { source, name }
end

local function parse_stage_out(value)
  local name, target = value:match("^([^:]*):(.*)$")
  if not name or target:sub(1, 1) ~= "/" then
    return nil, "'" .. value .. "': needs a name and an absolute path: stage_out=NAME:/PATH"
  end
  if not is_inside(name) then return nil, "'" .. value .. "': NAME must be a path inside the burst buffer" end
  return { name, target }
end

local function parse_tier(value)
  if not value:match("^[%w._-]+$") then return nil, "'" .. value .. "' is not a valid tier name" end
  return value
end

local TYPES = { volumes = true, shared = true }

local function parse_type(value)
  if not TYPES[value] then return nil, "'" .. value .. "' is not a type of space; known types: shared, volumes" end
  return value
end

local function parse_servers(value)
  local number = value:match("^%d%d?%d?$") and tonumber(value)
  if not number or number < 1 then return nil, "'" .. value .. "' is not a number of data servers such as 4" end
  return number
end

local READERS = {
  capacity = forebay.parse_size, time = forebay.parse_duration, pool = parse_tier, tier = parse_tier,
  stage_in = parse_stage_in, stage_out = parse_stage_out, type = parse_type, servers = parse_servers,
}
local KNOWN = "capacity, tier, pool, time, type, servers, equal, stage_in, stage_out"

local function add_option(request, word)
  if word == "equal" then
    request.equal = true
    return
  end
  local name, value = word:match("^([^=]+)=(.*)$")
  if not name or not READERS[name] then return "unknown option '" .. word .. "'; known options: " .. KNOWN end
  local parsed, more = READERS[name](value)
  if not parsed then return name .. ": " .. more end
  if name == "stage_in" or name == "stage_out" then
    table.insert(request[name], parsed)
  elseif request[name] and (name == "capacity" or request[name] ~= parsed) then
    return name .. " is given twice"
  else
    request[name] = parsed
    if name == "capacity" then request.same, request.text = more, value end
  end
end

-- Calls `each` with the options of every directive in the comments at the top of a script.
-- A line that ends with a backslash continues in the next directive.
local function each_directive(text, each)
  local head, options = "^#" .. forebay.DIRECTIVE .. "(.*)$", nil
  for line in text:gmatch("[^\r\n]+") do
    if line:sub(1, 1) ~= "#" then break end
    local more = line:match(head)
    if more and (more == "" or more:match("^%s")) then
      options = (options or "") .. more
      if options:sub(-1) == "\\" then
        options = options:sub(1, -2)
      else
        each(options)
        options = nil
      end
    end
  end
  if options then each(options) end
end

-- Returns which options do not go together, or nil.
local function explain_conflict(request)
  if request.type == "shared" then return nil end
  local option = request.servers and "servers" or request.equal and "equal"
  return option and option .. ": is only for a shared file system; add type=shared" or nil
end

-- Parses the request of a script: capacity in bytes, tier ("" for any), time in seconds (or nil), type (nil: volumes),
-- servers (or nil), equal, and stage_in and stage_out as pairs of paths. Returns nil if it requests nothing; nil and one line if the request is invalid.
function forebay.parse_request(text)
  local request, wrong, any = { stage_in = {}, stage_out = {} }, nil, false
  each_directive(text, function(options)
    any = true
    for word in options:gmatch("%S+") do
      wrong = wrong or add_option(request, word)
    end
  end)
  if not any then return nil end
  if wrong then return nil, wrong end
  if not request.capacity then return nil, "capacity is missing: #" .. forebay.DIRECTIVE .. " capacity=500GB" end
  local pool = request.pool ~= forebay.ANY and request.pool or nil
  if pool and request.tier and pool ~= request.tier then
    return nil, "pool '" .. pool .. "' and tier '" .. request.tier .. "' differ; give only one of them"
  end
  request.tier = request.tier or pool or ""
  local wrong = explain_conflict(request)
  if wrong then return nil, wrong end
  return request
end

function forebay.read_file(path)
  local file, why = io.open(path, "r")
  if not file then return nil, why end
  local text = file:read("*a")
  file:close()
  return text
end

-- The service

local NONSENSE = "the storage service gave an invalid answer"

local function report_away(why)
  return nil, forebay.format_line(why):sub(1, 250) .. AWAY
end

function forebay.is_away(why)
  return why ~= nil and why:sub(-#AWAY) == AWAY
end

-- Makes one call over the service's socket; returns the answer as a document and its status, or nil and the reason.
function forebay.call(method, path, body, seconds)
  local fine, core = pcall(require, "socket.core")
  local also, unix = pcall(require, "socket.unix")
  local too, json = pcall(require, "cjson")
  if not (fine and also and too) then
    return report_away("lua-socket or lua-cjson is not installed; install both where slurmctld runs")
  end
  local stop = core.gettime() + seconds
  local text = body and json.encode(body) or ""
  local lines = { method .. " " .. path .. " HTTP/1.1", "Host: forebay", "Connection: close" }
  if settings.token ~= "" then
    local token, why = forebay.read_file(settings.token)
    if not token then return report_away("cannot read the token: " .. why) end
    lines[#lines + 1] = "Authorization: Bearer " .. token:gsub("%s", "")
  end
  if body then lines[#lines + 1] = "Content-Type: application/json" end
  lines[#lines + 1] = "Content-Length: " .. #text
  local connection = type(unix) == "table" and unix.stream() or unix()
  -- The limit is for the whole operation ("t"): an answer that comes byte by byte must not take longer.
  local function set_timeout() connection:settimeout(math.max(0.001, stop - core.gettime()), "t") end
  local function fail(why)
    connection:close()
    return report_away("the storage service does not answer (" .. tostring(why) .. "): " .. settings.socket)
  end
  set_timeout()
  local done, why = connection:connect(settings.socket)
  if not done then return fail(why) end
  set_timeout()
  done, why = connection:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. text)
  if not done then return fail(why) end
  local status, length
  repeat
    set_timeout()
    local line
    line, why = connection:receive("*l")
    if not line then return fail(why) end
    if core.gettime() > stop then return fail("timeout") end
    status = status or tonumber(line:match("^HTTP/%d%.%d (%d+)"))
    length = length or tonumber(line:lower():match("^content%-length: *(%d+)"))
  until line == ""
  if not status or not length then return fail("no HTTP") end
  set_timeout()
  local answer = ""
  if length > 0 then
    answer, why = connection:receive(length)
    if not answer then return fail(why) end
  end
  connection:close()
  local read, document = pcall(json.decode, answer)
  if not read or type(document) ~= "table" then return report_away(NONSENSE .. " (" .. status .. ")") end
  if status == 429 or status >= 500 then
    return report_away(document.error or "the storage service answers " .. status)
  end
  return document, status
end

local SHORT = 1 -- seconds that a call may take inside slurmctld
local PAUSE = 5 -- seconds for which none waits after one that had no answer

-- The same, for callers inside slurmctld, which answers nobody meanwhile. A service that hangs must not take a second of
-- each of many jobs: sbatch gives up after ten.
function forebay.call_inside(method, path, body)
  local mark = settings.cache ~= "" and settings.cache .. ".hangs"
  local now, since = os.time(), mark and tonumber(forebay.read_file(mark) or "")
  if since and since <= now and now < since + PAUSE then
    return report_away("the storage service did not answer a moment ago: " .. settings.socket)
  end
  local document, status = forebay.call(method, path, body, SHORT)
  if mark and not document and status:find("(timeout)", 1, true) then
    local file = io.open(mark, "w")
    if file then
      file:write(tostring(os.time()))
      file:close()
    end
  end
  return document, status
end

-- The same, for callers outside slurmctld that can wait: retries for `patience` seconds if the service does not answer.
function forebay.call_patiently(method, path, body, patience, seconds)
  local core = require("socket.core")
  local stop = core.gettime() + patience
  while true do
    local document, status = forebay.call(method, path, body, seconds or 10)
    if document or core.gettime() >= stop then return document, status end
    core.sleep(0.2)
  end
end

-- Returns the error in an answer, or nil.
function forebay.find_error(document, status)
  if not document then return status end
  if status >= 300 then return forebay.format_line(document.error or "the storage service answers " .. status) end
end

-- Lists all tiers: name, total and free bytes. Returns nil and the reason if they are unknown.
function forebay.list_tiers(ask)
  local document, status = ask("GET", "/v1/tiers", nil)
  local wrong = forebay.find_error(document, status)
  if wrong then return nil, wrong end
  if type(document.tiers) ~= "table" or #document.tiers == 0 then return report_away(NONSENSE) end
  for _, tier in ipairs(document.tiers) do
    if type(tier) ~= "table" or type(tier.name) ~= "string" or not (tonumber(tier.total) and tonumber(tier.free)) then
      return report_away(NONSENSE)
    end
  end
  return document.tiers
end

-- Grants of jobs

function forebay.grant_key(job)
  return "slurm-" .. settings.cluster .. "-" .. job
end

local OVER = { releasing = true, released = true, refused = true, failed = true, expired = true }

local function is_name(text)
  return type(text) == "string" and text:match("^[%w._-]+$") ~= nil
end

local function are_paths(paths)
  if type(paths) ~= "table" then return false end
  for _, path in ipairs(paths) do
    if type(path) ~= "string" or path:sub(1, 1) ~= "/" then return false end
  end
  return true
end

local function is_grant(grant)
  if type(grant) ~= "table" or not is_name(grant.id) or type(grant.state) ~= "string" then return false end
  for _, name in ipairs({ "uid", "gid", "size", "start", "until" }) do
    if not tonumber(grant[name]) then return false end
  end
  return are_paths(grant.paths) and (grant.path == "" or grant.path == grant.paths[1])
end

-- Returns the grant in an answer; nil and the reason if the answer is not a grant.
function forebay.parse_grant(grant, status)
  local wrong = forebay.find_error(grant, status)
  if wrong then return nil, wrong end
  if not is_grant(grant) then return report_away(NONSENSE) end
  return grant
end

-- Finds the latest grant of a job, unless it has ended, and the number of its grants; or nil, nil and the reason.
-- `ask` is forebay.call or forebay.call_patiently with a time limit.
function forebay.find_grant(job, ask)
  local document, status = ask("GET", "/v1/keys/" .. forebay.grant_key(job), nil)
  local wrong = forebay.find_error(document, status)
  if wrong then return nil, nil, wrong end
  local grants = document.grants
  if type(grants) ~= "table" or (#grants > 0 and not is_grant(grants[#grants])) then
    local _, nonsense = report_away(NONSENSE)
    return nil, nil, nonsense
  end
  local last = grants[#grants]
  return last and not OVER[last.state] and last or nil, #grants
end

-- From set-up to teardown, a note on a job's grant lies in slurmctld's state folder. With it, a job that is set up can
-- start and stage out while the service does not answer. Only the user who runs slurmctld can enter that folder.

local function note_path(job)
  return (settings.jobs or "") ~= "" and settings.jobs .. "/" .. job or nil
end

-- Returns the output of a command, and whether it succeeded. Never call this inside slurmctld.
function forebay.run_command(command)
  local pipe = io.popen(command .. " 2>&1; echo \"=$?\"")
  local text = pipe:read("*a")
  pipe:close()
  local output, code = text:match("^(.*)=(%d+)%s*$")
  return output or text, code == "0"
end

-- Prints the descriptors of a hook's process that write to pipes of which it has the other end, too; nothing unless the
-- process is a child of slurmscriptd.
local SIBLINGS = [=[
  hook=$PPID
  read -r _ _ _ parent _ < /proc/$hook/stat
  [ "$(cat /proc/$hook/comm /proc/$parent/comm)" = "slurmscriptd
slurmscriptd" ] || exit 0
  ls -l /proc/$hook/fd | awk '$NF ~ /^pipe:/ { if ($1 ~ /^.r/) read[$NF] = 1; else writes[$(NF - 2)] = $NF }
    END { for (number in writes) if (read[writes[number]]) print number }'
]=]

-- slurmscriptd starts hooks without closing what others of its threads have just opened, and sees the end of a hook only
-- when nobody holds its pipe any more. A hook that waits for space would keep all that were started with it from ending,
-- and with them the space that it waits for. A hook's own pipe is the one whose other end it does not have.
function forebay.leave_siblings()
  pcall(function()
    local socket
    for number in forebay.run_command(SIBLINGS):gmatch("(%d+)\n") do
      if not socket then
        socket = require("socket.core").tcp()
        socket:close()
      end
      socket:setfd(tonumber(number))
      socket:close()
    end
  end)
end

-- Writes the note; the space is needed for `time` seconds (nil: as long as the job lasts). Nil, or the error.
function forebay.write_note(job, grant, time)
  local file = note_path(job)
  if not file then return "slurm.conf has no StateSaveLocation; add it and run forebay slurm install again" end
  local text = require("cjson").encode({
    key = forebay.grant_key(job), id = grant.id, state = grant.state,
    uid = format_number(grant.uid), gid = format_number(grant.gid),
    size = format_number(grant.size), start = format_number(grant.start), ["until"] = format_number(grant["until"]),
    time = time and format_number(time) or "", path = grant.path, paths = grant.paths,
  })
  local folder, new = quote(settings.jobs), quote(file .. ".new")
  local output, fine = forebay.run_command("umask 077; rm -f " .. quote(file) .. " " .. quote(file .. ".failed") ..
    "; mkdir -p " .. folder .. " && [ -O " .. folder .. " ] && [ ! -L " .. folder .. " ] && chmod 700 " .. folder ..
    " && printf %s " .. quote(text) .. " >" .. new .. " && mv -f " .. new .. " " .. quote(file))
  return not fine and (output ~= "" and output or settings.jobs .. " is not a folder that slurmctld's user owns") or nil
end

-- Reads the grant at set-up from the note; nil if this job has no valid note.
function forebay.read_note(job)
  local text = note_path(job) and forebay.read_file(note_path(job))
  local fine, json = pcall(require, "cjson")
  local read, grant = pcall(fine and json.decode or error, text or "")
  return read and is_grant(grant) and grant.key == forebay.grant_key(job) and grant or nil
end

function forebay.remove_notes(job)
  if not note_path(job) then return end
  os.remove(note_path(job))
  os.remove(note_path(job) .. ".failed")
end

-- Notes that a stage-out failed before it could mark its volume, so that the data stays.
function forebay.note_failed(job)
  if note_path(job) then forebay.run_command("umask 077; : >" .. quote(note_path(job) .. ".failed")) end
end

function forebay.has_failed(job)
  return note_path(job) ~= nil and forebay.read_file(note_path(job) .. ".failed") ~= nil
end

-- Returns the latest staging of a grant, or nil.
function forebay.staging_of(grant)
  return type(grant.staging) == "table" and type(grant.staging.state) == "string" and grant.staging or nil
end

function forebay.is_over(grant)
  return OVER[grant.state]
end

-- Asks the service whether it could ever grant the request: nil if it could, else the reason; or nil and an error.
function forebay.find_refusal(request)
  local path = "/v1/fit?size=" .. format_number(request.capacity) .. "&tier=" .. request.tier ..
    (request.time and "&seconds=" .. format_number(math.max(1, request.time)) or "") ..
    (request.type and "&type=" .. request.type or "") .. (request.equal and "&equal=true" or "") ..
    (request.servers and "&servers=" .. format_number(request.servers) or "")
  local document, status = forebay.call_inside("GET", path, nil)
  if not document then return nil, status end
  if status >= 300 then return forebay.find_error(document, status) end
  return document.answer == "never" and forebay.format_line(document.because) or nil
end

forebay.quote, forebay.format_number = quote, format_number
return forebay
