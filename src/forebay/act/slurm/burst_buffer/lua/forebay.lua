-- Forebay for Slurm: what burst_buffer.lua and job_submit.lua share. Settings are in forebay_settings.lua beside it.
--
-- Written for Lua 5.1 to 5.4. Nothing here waits longer than it is told to: some callers are inside slurmctld.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local settings = dofile(here .. "forebay_settings.lua")

local forebay = { settings = settings, DIRECTIVE = "BB_LUA", ANY = "any" }

-- Ends each message about a service that does not answer, or not in its right mind: `forebay slurm reconcile` lets a job
-- go on that was held with it.
local AWAY = " [service-away]"

-- Words

-- The first line of a text, short enough for Slurm's Reason.
function forebay.line(text)
  return (tostring(text):gsub("[%s%c]+", " "):gsub("^ ", ""):gsub(" $", ""):sub(1, 300))
end

local function quoted(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function printed(number)
  return string.format("%.0f", number)
end

-- Sizes and times, as `forebay` reads them everywhere: GB is 1e9, GiB is 2^30

local PREFIXES = {
  [""] = 1, k = 1e3, m = 1e6, g = 1e9, t = 1e12, p = 1e15,
  ki = 2 ^ 10, mi = 2 ^ 20, gi = 2 ^ 30, ti = 2 ^ 40, pi = 2 ^ 50,
}
local SECONDS = { [""] = 1, s = 1, ms = 1e-3, us = 1e-6, min = 60, m = 60, h = 3600, d = 86400 }

local function split(text)
  local digits, unit = text:match("^([-+]?[%d.]+[eE][-+]?%d+)([A-Za-z]*)$")
  if not digits then digits, unit = text:match("^([-+]?[%d.]+)([A-Za-z]*)$") end
  return digits and not digits:find("x") and tonumber(digits), unit
end

-- Bytes, and whether Slurm itself reads the same of the same text; or nil and what is wrong.
function forebay.size(text)
  local number, unit = split(text)
  if not number then return nil, "'" .. text .. "' is not a number with a unit; write it like 500GB or 2TiB" end
  local prefix, factor = unit:match("^(.-)B$"), 1
  if not prefix then prefix, factor = unit:match("^(.-)bit$"), 0.125 end
  if unit == "" then prefix, factor = "", 1 end
  local scale = prefix and PREFIXES[prefix:lower()]
  if not scale then return nil, "'" .. text .. "' has no unit of bytes; write it like 500GB or 2TiB" end
  local bytes = math.ceil(number * scale * factor)
  if bytes <= 0 then return nil, "must be above 0, not '" .. text .. "'" end
  if bytes >= 2 ^ 53 then return nil, "is too large: '" .. text .. "'" end
  return bytes, text:match("^%d+[kmgtpKMGTP]?i?B?$") ~= nil and factor == 1 and (unit == "" or unit:match("B$") ~= nil)
end

-- Seconds, or nil and what is wrong.
function forebay.duration(text)
  local number, unit = split(text)
  if not number or not SECONDS[unit] then
    return nil, "'" .. text .. "' is not a duration; write it like 90min, 2h or 1d"
  end
  local seconds = number * SECONDS[unit]
  if seconds <= 0 or seconds > 3650 * 86400 then return nil, "must be above 0 and at most 3650d, not '" .. text .. "'" end
  return seconds
end

-- A time limit as squeue prints it (days-hours:minutes:seconds), in seconds; nil if there is none.
function forebay.limit(text)
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

local function inside(path)
  if path == "" or path:sub(1, 1) == "/" then return false end
  for part in path:gmatch("[^/]+") do
    if part == ".." then return false end
  end
  return true
end

local function from_outside(value)
  local source, name = value:match("^(/[^:]*):(.*)$")
  if not source then source, name = value, value:gsub("/+$", ""):match("([^/]+)$") end
  if source:sub(1, 1) ~= "/" then return nil, "'" .. value .. "': needs an absolute path: stage_in=/PATH[:NAME]" end
  if not name or not inside(name) then
    return nil, "'" .. value .. "': NAME must be a path inside the burst buffer: stage_in=/PATH:NAME"
  end
  return { source, name }
end

local function to_outside(value)
  local name, target = value:match("^([^:]*):(.*)$")
  if not name or target:sub(1, 1) ~= "/" then
    return nil, "'" .. value .. "': needs a name and an absolute path: stage_out=NAME:/PATH"
  end
  if not inside(name) then return nil, "'" .. value .. "': NAME must be a path inside the burst buffer" end
  return { name, target }
end

local function tier_of(value)
  if not value:match("^[%w._-]+$") then return nil, "'" .. value .. "' is not a valid tier name" end
  return value
end

local READERS = {
  capacity = forebay.size, time = forebay.duration, pool = tier_of, tier = tier_of,
  stage_in = from_outside, stage_out = to_outside,
}
local KNOWN = "capacity, tier, pool, time, stage_in, stage_out"

local function take(wish, word)
  local name, value = word:match("^([^=]+)=(.*)$")
  if not name or not READERS[name] then return "unknown option '" .. word .. "'; known options: " .. KNOWN end
  local found, more = READERS[name](value)
  if not found then return name .. ": " .. more end
  if name == "stage_in" or name == "stage_out" then
    table.insert(wish[name], found)
  elseif wish[name] and (name == "capacity" or wish[name] ~= found) then
    return name .. " is given twice"
  else
    wish[name] = found
    if name == "capacity" then wish.same, wish.told = more, value end
  end
end

-- Calls `each` with the words of every directive of a script, which are in the comments at its top;
-- a line that ends with a backslash goes on in the next directive.
local function directives(text, each)
  local head, words = "^#" .. forebay.DIRECTIVE .. "(.*)$", nil
  for line in text:gmatch("[^\r\n]+") do
    if line:sub(1, 1) ~= "#" then break end
    local found = line:match(head)
    if found and (found == "" or found:match("^%s")) then
      words = (words or "") .. found
      if words:sub(-1) == "\\" then
        words = words:sub(1, -2)
      else
        each(words)
        words = nil
      end
    end
  end
  if words then each(words) end
end

-- What a script asks for: capacity in bytes, tier ("" for any), time in seconds (or nil), stage_in and stage_out as
-- pairs of paths. Nil if it asks for nothing; nil and one line if it makes no sense.
function forebay.wish(text)
  local wish, wrong, any = { stage_in = {}, stage_out = {} }, nil, false
  directives(text, function(words)
    any = true
    for word in words:gmatch("%S+") do
      wrong = wrong or take(wish, word)
    end
  end)
  if not any then return nil end
  if wrong then return nil, wrong end
  if not wish.capacity then return nil, "capacity is missing: #" .. forebay.DIRECTIVE .. " capacity=500GB" end
  local pool = wish.pool ~= forebay.ANY and wish.pool or nil
  if pool and wish.tier and pool ~= wish.tier then
    return nil, "pool '" .. pool .. "' and tier '" .. wish.tier .. "' differ"
  end
  wish.tier = wish.tier or pool or ""
  return wish
end

function forebay.read(path)
  local file, why = io.open(path, "r")
  if not file then return nil, why end
  local text = file:read("*a")
  file:close()
  return text
end

-- The service

local NONSENSE = "the storage service gave an invalid answer"

local function away(why)
  return nil, forebay.line(why):sub(1, 250) .. AWAY
end

function forebay.is_away(why)
  return why ~= nil and why:sub(-#AWAY) == AWAY
end

-- One question over the service's socket; the answer as a document and its status, or nil and why there is none.
function forebay.call(method, path, body, seconds)
  local fine, core = pcall(require, "socket.core")
  local also, unix = pcall(require, "socket.unix")
  local too, json = pcall(require, "cjson")
  if not (fine and also and too) then return away("lua-socket or lua-cjson is not installed where slurmctld runs") end
  local stop = core.gettime() + seconds
  local text = body and json.encode(body) or ""
  local lines = { method .. " " .. path .. " HTTP/1.1", "Host: forebay", "Connection: close" }
  if settings.token ~= "" then
    local token, why = forebay.read(settings.token)
    if not token then return away("the token cannot be read: " .. why) end
    lines[#lines + 1] = "Authorization: Bearer " .. token:gsub("%s", "")
  end
  if body then lines[#lines + 1] = "Content-Type: application/json" end
  lines[#lines + 1] = "Content-Length: " .. #text
  local connection = type(unix) == "table" and unix.stream() or unix()
  -- Of the whole operation ("t"): an answer that comes byte by byte must not take longer either.
  local function left() connection:settimeout(math.max(0.001, stop - core.gettime()), "t") end
  local function gone(why)
    connection:close()
    return away("the storage service does not answer (" .. tostring(why) .. "): " .. settings.socket)
  end
  left()
  local done, why = connection:connect(settings.socket)
  if not done then return gone(why) end
  left()
  done, why = connection:send(table.concat(lines, "\r\n") .. "\r\n\r\n" .. text)
  if not done then return gone(why) end
  local status, length
  repeat
    left()
    local line
    line, why = connection:receive("*l")
    if not line then return gone(why) end
    if core.gettime() > stop then return gone("timeout") end
    status = status or tonumber(line:match("^HTTP/%d%.%d (%d+)"))
    length = length or tonumber(line:lower():match("^content%-length: *(%d+)"))
  until line == ""
  if not status or not length then return gone("no HTTP") end
  left()
  local answer = ""
  if length > 0 then
    answer, why = connection:receive(length)
    if not answer then return gone(why) end
  end
  connection:close()
  local read, document = pcall(json.decode, answer)
  if not read or type(document) ~= "table" then return away(NONSENSE .. " (" .. status .. ")") end
  if status == 429 or status >= 500 then return away(document.error or "the storage service answers " .. status) end
  return document, status
end

-- The same, for callers outside slurmctld that can wait: one that does not answer is asked again for `patience` seconds.
function forebay.ask(method, path, body, patience, seconds)
  local core = require("socket.core")
  local stop = core.gettime() + patience
  while true do
    local document, status = forebay.call(method, path, body, seconds or 10)
    if document or core.gettime() >= stop then return document, status end
    core.sleep(0.2)
  end
end

-- What is wrong with an answer; nil if nothing is.
function forebay.wrong(document, status)
  if not document then return status end
  if status >= 300 then return forebay.line(document.error or "the storage service answers " .. status) end
end

-- All tiers: name, and bytes in all and free. Nil and why they are not known.
function forebay.tiers(ask)
  local found, status = ask("GET", "/v1/tiers", nil)
  local wrong = forebay.wrong(found, status)
  if wrong then return nil, wrong end
  if type(found.tiers) ~= "table" or #found.tiers == 0 then return away(NONSENSE) end
  for _, tier in ipairs(found.tiers) do
    if type(tier) ~= "table" or type(tier.name) ~= "string" or not (tonumber(tier.total) and tonumber(tier.free)) then
      return away(NONSENSE)
    end
  end
  return found.tiers
end

-- Grants of jobs

function forebay.key(job)
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

local function is_grant(found)
  if type(found) ~= "table" or not is_name(found.id) or type(found.state) ~= "string" then return false end
  for _, name in ipairs({ "uid", "gid", "size", "start", "until" }) do
    if not tonumber(found[name]) then return false end
  end
  return are_paths(found.paths) and (found.path == "" or found.path == found.paths[1])
end

-- The grant that an answer is. Nil and why it is none.
function forebay.granted(found, status)
  local wrong = forebay.wrong(found, status)
  if wrong then return nil, wrong end
  if not is_grant(found) then return away(NONSENSE) end
  return found
end

-- The latest grant of a job, if there is one that has not ended; and how many there have been. Nil and why it is not
-- known. `ask` is forebay.call or forebay.ask with what it needs.
function forebay.grant(job, ask)
  local found, status = ask("GET", "/v1/keys/" .. forebay.key(job), nil)
  local wrong = forebay.wrong(found, status)
  if wrong then return nil, nil, wrong end
  local grants = found.grants
  if type(grants) ~= "table" or (#grants > 0 and not is_grant(grants[#grants])) then
    local _, nonsense = away(NONSENSE)
    return nil, nil, nonsense
  end
  local last = grants[#grants]
  return last and not OVER[last.state] and last or nil, #grants
end

-- What is kept of a job's grant in a folder of Slurm's own from its set-up to its teardown, so that a job that is set up
-- needs nobody's answer to begin and to be copied out. Only who runs slurmctld can enter that folder.

local function place(job)
  return (settings.jobs or "") ~= "" and settings.jobs .. "/" .. job or nil
end

-- What a command prints, and whether it ended well. Never inside slurmctld.
function forebay.run(command)
  local pipe = io.popen(command .. " 2>&1; echo \"=$?\"")
  local text = pipe:read("*a")
  pipe:close()
  local said, code = text:match("^(.*)=(%d+)%s*$")
  return said or text, code == "0"
end

-- Keeps it, for data that are needed for `time` seconds (nil: as long as the job lasts); or why it can't.
function forebay.keep(job, grant, time)
  local file = place(job)
  if not file then return "slurm.conf names no StateSaveLocation" end
  local text = require("cjson").encode({
    key = forebay.key(job), id = grant.id, state = grant.state, uid = printed(grant.uid), gid = printed(grant.gid),
    size = printed(grant.size), start = printed(grant.start), ["until"] = printed(grant["until"]),
    time = time and printed(time) or "", path = grant.path, paths = grant.paths,
  })
  local folder, new = quoted(settings.jobs), quoted(file .. ".new")
  local said, fine = forebay.run("umask 077; rm -f " .. quoted(file) .. " " .. quoted(file .. ".failed") ..
    "; mkdir -p " .. folder .. " && [ -O " .. folder .. " ] && [ ! -L " .. folder .. " ] && chmod 700 " .. folder ..
    " && printf %s " .. quoted(text) .. " >" .. new .. " && mv -f " .. new .. " " .. quoted(file))
  return not fine and (said ~= "" and said or settings.jobs .. " is not a folder of Slurm's own") or nil
end

-- The grant as it was at set-up; nil if nothing is kept, or nothing of use, or of another job.
function forebay.kept(job)
  local text = place(job) and forebay.read(place(job))
  local fine, json = pcall(require, "cjson")
  local read, found = pcall(fine and json.decode or error, text or "")
  return read and is_grant(found) and found.key == forebay.key(job) and found or nil
end

function forebay.forget(job)
  if not place(job) then return end
  os.remove(place(job))
  os.remove(place(job) .. ".failed")
end

-- Whether a stage-out failed before it could mark its volume: then what it should have copied stays, too.
function forebay.note_failed(job)
  if place(job) then forebay.run("umask 077; : >" .. quoted(place(job) .. ".failed")) end
end

function forebay.has_failed(job)
  return place(job) ~= nil and forebay.read(place(job) .. ".failed") ~= nil
end

function forebay.over(grant)
  return OVER[grant.state]
end

-- A check that the service decides: nil if a wish could be granted on an empty machine, else why not.
function forebay.never(wish, seconds)
  local path = "/v1/fit?size=" .. printed(wish.capacity) .. "&tier=" .. wish.tier ..
    (wish.time and "&seconds=" .. printed(math.max(1, wish.time)) or "")
  local found, status = forebay.call("GET", path, nil, seconds)
  if not found then return nil, status end
  if status >= 300 then return forebay.wrong(found, status) end
  return found.answer == "never" and forebay.line(found.because) or nil
end

forebay.quoted, forebay.printed = quoted, printed
return forebay
