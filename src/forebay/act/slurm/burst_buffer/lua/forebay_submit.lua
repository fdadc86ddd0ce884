-- Handles burst buffers for job_submit.lua. It changes only the directives of a job.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay.lua")

local HEAD = "^#" .. forebay.DIRECTIVE

-- `--bb` may be given with or without the directive's name.
local function add_directive_name(text)
  local lines = {}
  for line in text:gmatch("[^\r\n]+") do
    lines[#lines + 1] = line:match(HEAD) and line or "#" .. forebay.DIRECTIVE .. " " .. line
  end
  return table.concat(lines, "\n")
end

-- A comment "bb:capacity=500GB,tier=nvme" requests a burst buffer, for users who cannot change the script.
local function read_comment(comment)
  local options = comment and comment:match("^bb:(%S+)") or comment and comment:match("%sbb:(%S+)")
  return options and "#" .. forebay.DIRECTIVE .. " " .. options:gsub(",", " ")
end

-- Returns the text with a pool beside each capacity, and with numbers that Slurm reads as Forebay does.
local function complete_directives(text, request)
  local function complete_line(line)
    if not line:match(HEAD) then return line end
    local pool = not line:find("%spool=") and " pool=" .. (request.tier ~= "" and request.tier or forebay.ANY) or ""
    return (line:gsub("(%scapacity=)(%S+)", function(head, value)
      return head .. (request.same and value or forebay.format_number(request.capacity)) .. pool
    end))
  end
  local out, at, top = {}, 1, true
  while at <= #text do
    local stop = text:find("\n", at, true) or #text
    local line = text:sub(at, stop)
    top = top and line:sub(1, 1) == "#"
    if not top then
      out[#out + 1] = text:sub(at)
      break
    end
    out[#out + 1] = complete_line(line)
    at = stop + 1
  end
  return table.concat(out)
end

-- Returns the error in a job's request (nil: none), and a note for the user on what was added to it.
function forebay.submit(job_desc)
  local script, option = job_desc.script, job_desc.burst_buffer
  local added
  if option and option ~= "" then
    option = add_directive_name(option)
  else
    option = read_comment(job_desc.comment)
    added = option and "added from the job's comment: " .. option
  end
  if added and script and forebay.parse_request(script) then option, added = nil, nil end
  local request, wrong = forebay.parse_request((option and option .. "\n" or "") .. (script or ""))
  if wrong then return wrong end
  if not request then return nil end
  if request.tier ~= "" then -- Slurm would refuse a pool that it does not know without a word
    local never = forebay.find_refusal(request)
    if never then return never end
  end
  if option then job_desc.burst_buffer = complete_directives(option, request) end
  if script then
    local better = complete_directives(script, request)
    if better ~= script then job_desc.script = better end
  end
  return nil, added
end

return forebay
