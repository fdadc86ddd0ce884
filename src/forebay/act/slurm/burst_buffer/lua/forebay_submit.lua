-- What job_submit.lua does for burst buffers; it changes only the directives of a job.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local forebay = dofile(here .. "forebay.lua")

local HEAD = "^#" .. forebay.DIRECTIVE

-- `--bb` may be given with or without the directive's name.
local function named(text)
  local lines = {}
  for line in text:gmatch("[^\r\n]+") do
    lines[#lines + 1] = line:match(HEAD) and line or "#" .. forebay.DIRECTIVE .. " " .. line
  end
  return table.concat(lines, "\n")
end

-- A comment "bb:capacity=500GB,tier=nvme" asks for a burst buffer, for those who can't change the script.
local function from_comment(comment)
  local words = comment and comment:match("^bb:(%S+)") or comment and comment:match("%sbb:(%S+)")
  return words and "#" .. forebay.DIRECTIVE .. " " .. words:gsub(",", " ")
end

-- The same text, with a pool beside each capacity and numbers that Slurm reads as we do.
local function completed(text, wish)
  local function complete(line)
    if not line:match(HEAD) then return line end
    local pool = not line:find("%spool=") and " pool=" .. (wish.tier ~= "" and wish.tier or forebay.ANY) or ""
    return (line:gsub("(%scapacity=)(%S+)", function(head, value)
      return head .. (wish.same and value or forebay.printed(wish.capacity)) .. pool
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
    out[#out + 1] = complete(line)
    at = stop + 1
  end
  return table.concat(out)
end

-- What is wrong with a job's request (nil: nothing), and what the user should know of what was added to it.
function forebay.submit(job_desc)
  local script, option = job_desc.script, job_desc.burst_buffer
  local added
  if option and option ~= "" then
    option = named(option)
  else
    option = from_comment(job_desc.comment)
    added = option and "added from the job's comment: " .. option
  end
  if added and script and forebay.wish(script) then option, added = nil, nil end
  local wish, wrong = forebay.wish((option and option .. "\n" or "") .. (script or ""))
  if wrong then return wrong end
  if not wish then return nil end
  if wish.tier ~= "" then -- Slurm would refuse a pool that it does not know without a word
    local never = forebay.never(wish, 1)
    if never then return never end
  end
  if option then job_desc.burst_buffer = completed(option, wish) end
  if script then
    local better = completed(script, wish)
    if better ~= script then job_desc.script = better end
  end
  return nil, added
end

return forebay
