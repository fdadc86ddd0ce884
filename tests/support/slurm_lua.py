"""The Lua that Slurm runs, run by Lua's own interpreter with what Slurm would give it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forebay.act.slurm.burst_buffer.installation import Hooks, burst_buffer_files, plan_files

LUA = shutil.which("lua5.1") or shutil.which("lua5.3") or "lua"
PATIENCE = 120.0
_SLURM = """
local json = require("cjson")
slurm = { SUCCESS = 0, ERROR = -1 }
slurm.log_info = function(f, ...) io.stderr:write(string.format(f, ...), "\\n") end
slurm.log_user = slurm.log_info
"""
_HOOK = (
    _SLURM
    + """
dofile(arg[1] .. "/burst_buffer.lua")
local words = json.decode(io.read("*a"))
print(json.encode({ _G["slurm_bb_" .. arg[2]](unpack(words)) }))
"""
)
_SUBMIT = (
    _SLURM
    + """
dofile(arg[1] .. "/job_submit.lua")
local job = json.decode(io.read("*a"))
local code = slurm_job_submit(job, nil, 1000)
print(json.encode({ code = code, script = job.script, burst_buffer = job.burst_buffer }))
"""
)
_EACH = (
    _SLURM
    + """
local forebay = dofile(arg[1] .. "/forebay.lua")
local out = {}
for at, word in ipairs(json.decode(io.read("*a"))) do
  local found, more = forebay[arg[2]](word)
  if type(found) == "number" then found = { number = string.format("%.17g", found) } end -- cjson writes 14 digits
  out[at] = { found == nil and json.null or found, more == nil and json.null or more }
end
print(#out == 0 and "[]" or json.encode(out))
"""
)


class Answer(NamedTuple):
    """What a hook returns, and what it has to say in the log."""

    code: int
    text: str
    log: str


class Lua:
    """The files as they are installed in a folder, for a service at a socket."""

    def __init__(self, folder: Path, socket: Path, **settings: Any) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.hooks = Hooks(service=f"unix:{socket}", cluster="c", command="echo", state=str(folder), wait=30.0,
                           patience=0.0)  # fmt: skip
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        self.hooks = replace(self.hooks, **settings)
        for planned in plan_files(self.folder, burst_buffer_files(self.hooks)):
            planned.write()

    def script(self, *directives: str) -> str:
        path = self.folder / "script"
        path.write_text("\n".join(("#!/bin/sh", *directives, "true", "")))
        return str(path)

    def start(self, hook: str, *words: str) -> subprocess.Popen[str]:
        process = self._process(_HOOK, hook)
        assert process.stdin is not None
        process.stdin.write(json.dumps(words) if words else "[]")
        process.stdin.close()
        process.stdin = None
        return process

    def end(self, process: subprocess.Popen[str]) -> Answer:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        code, *text = json.loads(out)
        return Answer(code, text[0] if text else "", err)

    def call(self, hook: str, *words: str) -> Answer:
        return self.end(self.start(hook, *words))

    def submit(self, **job: str) -> tuple[dict[str, Any], str]:
        """The job after job_submit, and what the user is told."""
        process = self._process(_SUBMIT, "")
        out, err = process.communicate(json.dumps(job), timeout=PATIENCE)
        assert process.returncode == 0, err
        return json.loads(out), err.strip()

    def each(self, function: str, words: Sequence[str]) -> list[tuple[Any, Any]]:
        """What a function of the library answers to each of these words."""
        process = self._process(_EACH, function)
        out, err = process.communicate(json.dumps(list(words)), timeout=PATIENCE)
        assert process.returncode == 0, err
        return [(_exact(found), more) for found, more in json.loads(out)]

    def _process(self, driver: str, what: str) -> subprocess.Popen[str]:
        path = self.folder / "driver.lua"
        path.write_text(driver)
        return subprocess.Popen(
            [LUA, str(path), str(self.folder), what], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"},
        )  # fmt: skip


def _exact(found: Any) -> Any:
    return float(found["number"]) if isinstance(found, dict) and "number" in found else found


def skip_without_lua() -> None:
    words = 'require "socket.core" require "socket.unix" require "cjson"'
    if shutil.which(LUA) is None:
        pytest.skip("there is no Lua interpreter (Debian: apt-get install lua5.1)")
    if subprocess.run([LUA, "-e", words], capture_output=True, check=False, timeout=PATIENCE).returncode != 0:
        pytest.skip("Lua's modules are not installed (Debian: apt-get install lua-socket lua-cjson)")
