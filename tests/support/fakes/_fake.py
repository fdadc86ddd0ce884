"""What the pretended commands share: their state, which lasts from one command to the next, and how they end.

The state is a JSON file, named by FOREBAY_FAKE_STATE:
  mount      the folder that plays the file system
  targets    [{index, total, free (bytes), flags (Lustre), state ("active", "inactive" or an error's words),
               reachability, consistency, pool (BeeGFS)}]
  default    the layout of the root; layouts: {folder: layout}; a layout is {count, size, start, pool, pattern}
             or {"components": [{end, ...}]}
  pools      {name: [indices]} (Lustre)
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
    """The command's end: its exit code and what it says on stderr."""

    def __init__(self, code, words):
        super().__init__(words)
        self.code, self.words = code, words


def remembered():
    with open(os.environ["FOREBAY_FAKE_STATE"]) as file:
        return json.load(file)


def remember(state):
    with open(os.environ["FOREBAY_FAKE_STATE"], "w") as file:
        json.dump(state, file)


def pretend(main, name, verb):
    """Run `main(state, arguments, altered)` on the state, in the mood that the state has for this verb."""
    state = remembered()
    state["log"].append([name, *sys.argv[1:]])
    key = f"{name} {verb}"
    mood = next((m for m in ("hang", "refuse", "say", "ignore", "alter") if key in state.get(m, ())), None)
    code = 0
    try:
        if mood == "hang":
            hang()
        if sum(key == " ".join(call)[: len(key)] for call in state["log"]) == state.get("broken", {}).get(key):
            raise Stop(5, f"error: {key}: Input/output error")
        if mood == "refuse":
            raise Stop(*state["refuse"][key])
        if mood == "say":
            print(state["say"][key][1])
            raise Stop(state["say"][key][0], "")
        changed = main(state, sys.argv[1:], state["alter"][key] if mood == "alter" else {})
        if changed and mood == "ignore":
            state = remembered() | {"log": state["log"]}
    except Stop as stop:
        print(stop.words, file=sys.stderr)
        code = stop.code
    if mood and state.get("once"):
        del state[mood]
    remember(state)
    sys.stdout.flush()
    os._exit(code)


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
