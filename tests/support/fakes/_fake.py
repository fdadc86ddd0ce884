"""What the pretended commands share: their state, which lasts from one command to the next, and how they end.

The state is a JSON file, named by FOREBAY_FAKE_STATE:
  mount      the folder that plays the file system
  targets    [{index, total, free, used (bytes)}]; BeeGFS: reachability, consistency, pool; Lustre: flags (D, N, R),
             state ("active", "inactive": this client does not use it, "down"), and on the MDS max_create_count and
             osp_active (0: it creates nothing there)
  default    the file system's layout; layouts: {folder: layout}; a layout is {count, size, start, pool, pattern, osts}
             or {"components": [{end, ...}]}, or {} for none
  files      {file: layout} (Lustre); pools: {name: [indices]}; server: this machine is MDS and OSS as well;
             user: no root, who may not read everything; release: "2.15" prints components as before 2.16
  job_stats  {"scratch-OST0000": [{job, latest, read, write}]}; `step` bytes are added at each reading
  page       rows in one JSON document (beegfs, version 8)
Moods, by command and verb ("lfs setstripe"): `hang` never ends; `refuse` {verb: [code, words]}; `say` {verb: [code,
text]} prints just that;
`ignore` ends well and changes nothing; `alter` {verb: {key: value}} sets something else; `broken` {verb: 3} fails
the third time. `once` lets a mood pass after one time. `log` has every call.
"""

# ruff: noqa: PTH112, PTH120, PTH123
# pathlib takes longer to import than all else
import json
import os
import select
import sys


class Stop(Exception):
    """The command's end: its exit code, what it says on stderr, and what it has printed."""

    def __init__(self, code, words, out=""):
        super().__init__(words)
        self.code, self.words, self.out = code, words, out


def remembered():
    with open(os.environ["FOREBAY_FAKE_STATE"]) as file:
        return json.load(file)


def remember(state):
    with open(os.environ["FOREBAY_FAKE_STATE"], "w") as file:
        json.dump(state, file)


class Hangs(Exception):
    """It prints this, and goes on for ever."""

    def __init__(self, out=""):
        super().__init__(out)
        self.out = out


def pretend(main, name, verb):
    """Be the command `name`: run `main(state, arguments, altered)`, which prints, or returns what there is to print."""
    try:
        code, out, err = perform(main, name, verb, sys.argv[1:])
    except Hangs as hangs:
        print(hangs.out, end="", flush=True)
        hang()
    sys.stdout.flush()
    sys.stdout.buffer.write(out.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    print(err, end="", file=sys.stderr)
    os._exit(code)


def perform(main, name, verb, arguments):
    """What `main` makes of the state, in the mood that the state has for this verb: a code, and what it prints."""
    state = remembered()
    state["log"].append([name, *arguments])
    key = f"{name} {verb}"
    mood = next((m for m in ("hang", "refuse", "say", "ignore", "alter") if key in state.get(m, ())), None)
    code, out, err = 0, "", ""
    try:
        if mood == "hang":
            raise Hangs
        if sum(key == " ".join(call)[: len(key)] for call in state["log"]) == state.get("broken", {}).get(key):
            raise Stop(5, f"error: {key}: Input/output error")
        if mood == "refuse":
            raise Stop(*state["refuse"][key])
        if mood == "say":
            raise Stop(state["say"][key][0], "", f"{state['say'][key][1]}\n")
        out = main(state, arguments, state["alter"][key] if mood == "alter" else {}) or ""
        if mood == "ignore":
            state = remembered() | {"log": state["log"]}
    except Stop as stop:
        code, out, err = stop.code, stop.out, stop.words
    if mood and state.get("once"):
        del state[mood]
    remember(state)
    return code, out, err if not err or err.endswith("\n") else f"{err}\n"


def hang():
    """For ever, with a child that hangs as well."""
    child = os.fork()
    if child:
        remember(remembered() | {"child": child})
    while True:
        select.select([], [], [], 600)


def folder_of(path):
    """The real path, and whether it is a folder."""
    real = os.path.realpath(path)
    return real, os.path.isdir(real)


def inside(state, real):
    return (real + "/").startswith(os.path.realpath(state["mount"]) + "/")


def inherited(state, real):
    """The layout that counts in a folder: its own, or that of the nearest folder above it that has one."""
    while inside(state, real):
        if real in state["layouts"]:
            return state["layouts"][real]
        real = os.path.dirname(real)
    return state["default"]
