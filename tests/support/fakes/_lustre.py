"""How `lfs` and `lctl` of Lustre 2.17 answer, as recorded from the real ones; `act/test_lustre_recordings.py` compares.

A command that was not recorded, or is not used, raises `NotPretended`. See `_fake.py` for the state.
"""

# ruff: noqa: PTH110, PTH112, PTH113, PTH114, PTH118, PTH120, PTH123, PTH208, E501, SIM905
# pathlib takes longer to import than all else
import errno
import fnmatch
import os
import re

from _fake import Hangs, Stop, inside

MOST_STRIPES, MOST_INDEX, LONGEST_POOL = 2000, 65535, 15
GRAIN, OVER = 65536, 1 << 32
MOST_ON_MDT = 1 << 30
UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}
TAKES = {"-c", "-C", "-S", "-i", "-o", "-p", "-E", "-L"}
LONG = {
    "--stripe-count": "-c", "--stripe-size": "-S", "--stripe-index": "-i", "--pool": "-p", "--delete": "-d",
    "--overstripe-count": "-C", "--component-end": "-E", "--layout": "-L", "--ost": "-o",
}  # fmt: skip
USAGE = "Create a new file with a specific striping pattern or\nset the default striping pattern on an existing directory or\nUsage: setstripe ...\n"
UNSET = {"count": 0, "size": 0, "start": -1}
CLIENT = "ff305a3744497000"
OPERATIONS = ("read write getattr setattr punch sync destroy create statfs get_info set_info quotactl prealloc").split()


PARAMETERS = (
    "max_create_count active prealloc_status import degraded no_create readonly kbytesavail job_stats nosuch param"
).split()


class NotPretended(Exception):
    """Nobody knows how the real command answers this."""


def lfs(state, arguments, altered):
    """A mood can alter the number of stripes that is set."""
    if altered and "-d" not in arguments:
        arguments = [*arguments[:-1], "-c", str(altered["count"]), arguments[-1]]
    return answer(state, ["lfs", *arguments])


def lctl(state, arguments, _altered):
    return answer(state, ["lctl", *arguments])


def answer(state, argv):
    """What the command prints; it may change the state. Ends badly by `Stop`."""
    verbs = {
        ("lfs", "setstripe"): setstripe,
        ("lfs", "getstripe"): getstripe,
        ("lfs", "df"): df,
        ("lfs", "osts"): osts,
        ("lfs", "check"): check,
        ("lfs", "pool_list"): pool_list,
        ("lfs", "--version"): version,
        ("lctl", "get_param"): get_param,
    }
    if tuple(argv[:2]) not in verbs:
        raise NotPretended(argv)
    return verbs[tuple(argv[:2])](state, list(argv[2:]))


# Layouts


def misused(words):
    return Stop(4, f"{words}\n", USAGE)


def invalid(what, text):
    return misused(f"lfs setstripe setstripe: invalid {what} '{text}'")


def number(what, text, low, high):
    if not re.fullmatch(r"-?\d+", text) or not low <= int(text) <= high:
        raise invalid(what, text)
    return int(text)


def bytes_of(what, text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)[bB]?", text)
    size = float(found[1]) * (1 << UNITS.get(found[2].lower(), 0)) if found else 1
    if size % GRAIN:
        raise invalid(what, text)
    return int(size)


def size_of(text):
    size = bytes_of("stripe size", text)
    if size >= OVER:
        raise Stop(22, f"lfs setstripe: error: stripe size '{size}' over 4GB limit: Invalid argument (22)\n")
    return size


def osts_of(text):
    found = []
    for word in text.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if not ends:
            raise invalid("OST target(s)", text)
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found


def pool_of(state, text):
    name = text.removeprefix(f"{state['name']}.")
    if name in ("", "none"):
        return ""
    if len(name) > LONGEST_POOL:
        raise Stop(22, f"lfs setstripe: Invalid Poolname '{name}': Invalid argument (22)\n")
    if name not in state.get("pools", {}):
        words = f"pool '{name} fsname {state['name']}' does not exist: No such file or directory (2)"
        raise Stop(22, f"lfs setstripe: {words}\n")
    return name


def split(arguments):
    """Options as pairs, and the paths."""
    options, paths, waiting = [], [], iter(arguments)
    for argument in waiting:
        name, given, value = argument.partition("=") if argument.startswith("--") else (argument[:2], "", argument[2:])
        name = LONG.get(name, name)
        if not argument.startswith("-") or argument == "-":
            paths.append(argument)
        elif name == "-d":
            options.append((name, ""))
        elif name in TAKES:
            options.append((name, value if given or value else next(waiting, "")))
        elif name in ("-N", "-z", "-s") or argument == "--help":
            raise NotPretended(arguments)
        else:
            raise misused(f"lfs setstripe: unrecognized option '{argument}'")
    return options, paths


def read_options(state, options):
    """The layout that they say, or None for none; a component takes over what is not said from the one before it."""
    parts, current, delete = [], {}, False
    for option, value in options:
        if option == "-E":
            end = -1 if value.lower() in ("-1", "eof") else bytes_of("component end", value)
            taken_over = {key: current[key] for key in ("count", "size", "pool") if key in current}
            if parts:
                check_part(parts[-1], last=False)
            current = (taken_over if parts else current) | {"end": end}
            parts.append(current)
        elif option in ("-c", "-C"):
            current["count"] = number("stripe count", value, -1 if option == "-c" else -32, MOST_STRIPES)
            if option == "-C" and current["count"]:
                current["pattern"] = "raid0,overstriped"
        elif option == "-S":
            current["size"] = size_of(value)
        elif option == "-i":
            current["start"] = number("stripe offset", value, -1, MOST_INDEX)
        elif option == "-o":
            current["osts"] = osts_of(value)
        elif option == "-p":
            current["pool"] = pool_of(state, value)
        elif option == "-L":
            if value != "mdt":
                raise NotPretended(options)
            if not parts:
                words = "Invalid pattern: '-L mdt', must be specified with -E: Invalid argument (22)"
                raise Stop(22, f"lfs setstripe: {words}\n")
            current["pattern"] = value
        else:
            delete = True
    if delete and len(options) > 1:
        raise misused(
            "lfs setstripe setstripe: option -d is mutually exclusive with -s, -c, -o, -p, -I, -F and -E options"
        )
    begin = 0
    for part in parts or [current]:
        if "osts" in part:
            if part.get("count", len(part["osts"])) != len(part["osts"]):
                raise misused(f"stripe_count({part['count']}) != nr_tgts({len(part['osts'])})")
            part |= {"count": len(part["osts"]), "start": part["osts"][0]}
            if len(set(part["osts"])) < len(part["osts"]):
                part["pattern"] = "raid0,overstriped"
        if part.get("pattern") == "mdt" and not 0 < part["end"] <= MOST_ON_MDT:
            raise Stop(27, "error: 'mdt' layout size is too big\n")
        if parts and 0 < part["end"] <= begin:
            words = (
                f"Set extent [{begin}, {part['end']}) failed. Invalid argument\nerror: lfs setstripe: invalid layout"
            )
            raise Stop(22, f"{words}\n")
        begin = part.get("end", 0)
    if parts:
        check_part(parts[-1], last=True)
        for part in parts:
            for key in ("count", "size", "pool") if part.get("pattern") == "mdt" else ():
                part.pop(key, None)
        return {"components": [UNSET | part for part in parts]}
    return None if delete else UNSET | current


def check_part(part, *, last):
    if part.get("size") == 0 and "size" in part:
        words = "Set stripe size 0 failed: Invalid argument\n"
        raise (
            Stop(22, f"{words}error: lfs setstripe: invalid layout\n")
            if last
            else Stop(4, f"{words}lfs setstripe: invalid layout\n", USAGE)
        )


def setstripe(state, arguments):
    options, paths = split(arguments)
    layout = read_options(state, options)
    if not paths:
        raise misused("lfs setstripe setstripe: FILE must be specified")
    bad = None
    for path in paths:
        try:
            set_one(state, path, layout, alone={"-p"} == {option for option, _ in options})
        except Stop as stop:
            bad = stop
    if bad:
        raise bad
    return ""


def set_one(state, path, layout, *, alone):
    real = os.path.realpath(path)
    if os.path.isdir(real):
        if not inside(state, real):
            raise refused(path, errno.ENOTTY)
        set_folder(state, real, path, layout, alone)
        return
    if not os.path.isdir(os.path.dirname(real)):
        code = errno.ENOTDIR if os.path.exists(os.path.dirname(real)) else errno.ENOENT
        raise Stop(code, f"lfs setstripe: unable to open '{path}': {os.strerror(code)} ({code})\n")
    existed = os.path.exists(real)
    with open(real, "a"):  # which stays, whatever comes next
        pass
    if not inside(state, real):
        raise refused(path, errno.ENOTTY)
    if existed:
        raise Stop(errno.EEXIST, f"lfs setstripe: setstripe error for '{path}': stripe already set\n")
    state.setdefault("files", {})[real] = None
    if layout is None:
        layout = UNSET
    check_places(state, layout, path, is_folder=False)
    state["files"][real] = laid_out(state, layout)


def refused(path, code, words=""):
    return Stop(code, f"lfs setstripe: setstripe error for '{path}': {words or os.strerror(code)}\n")


def set_folder(state, real, path, layout, alone):
    keep_below(state, real)
    earlier = own(state, real)
    if layout is None or (alone and not layout.get("pool")):
        state["layouts"][real] = {}
        return
    check_places(state, layout, path, is_folder=True)
    kept = parts_of(earlier)[0].get("pool")
    for part in parts_of(layout):
        if kept and not part.get("pool") and not part.get("osts") and part.get("pattern") != "mdt":
            part["pool"] = kept
        if not part.get("pool"):
            part.pop("pool", None)
    state["layouts"][real] = {} if layout == UNSET else layout


def keep_below(state, real):
    """Folders that exist already do not follow: they got what theirs was when they were made."""
    for folder, names, _ in os.walk(real):
        for name in names:
            below = os.path.join(folder, name)
            if below not in state["layouts"]:
                state["layouts"][below] = own(state, below)


def own(state, real):
    """The layout that a folder has of its own: given, or from the folder above when it was made; {} for none."""
    root = os.path.realpath(state["mount"])
    while real != root and real not in state["layouts"]:
        real = os.path.dirname(real)
        if real == root:
            return {}  # that of the root is not handed down, but shown
    return state["layouts"].get(real, {})


def shown_of(state, real):
    """What a folder shows: its own, or that of the file system's root; None for neither."""
    return own(state, real) or state["layouts"].get(os.path.realpath(state["mount"])) or None


def parts_of(layout):
    return layout["components"] if layout and "components" in layout else [layout or {}]


def check_places(state, layout, path, *, is_folder):
    """What the MDS refuses."""
    existing = [t["index"] for t in state["targets"]]
    for part in parts_of(layout):
        places = state["pools"][part["pool"]] if part.get("pool") else existing
        wanted = part["osts"] if part.get("osts") else [part["start"]] if part["start"] != -1 else []
        if part.get("osts") and is_folder and not part.get("pool"):
            continue  # it finds out when a file is made
        if not set(wanted) <= set(places):
            if "components" not in layout:
                raise refused(path, errno.EINVAL)
            made = f"set default composite layout for '{path}'" if is_folder else f"create composite file '{path}'"
            raise Stop(1, f"lfs setstripe: lfs setstripe: cannot {made}: Invalid argument (22)\n")
        for target in state["targets"] if part.get("osts") else ():
            if target["index"] in part["osts"] and (code := cannot_create(target)):
                inactive = f"inactive OST among your specified {len(part['osts'])} OST(s)"
                raise refused(path, code, inactive if code == errno.EREMOTEIO else "")


def cannot_create(target):
    """0, or why the MDS creates no objects on it."""
    flags = target.get("flags", "")
    if "N" in flags or target.get("max_create_count", 1) == 0:
        return errno.ENOBUFS
    if "R" in flags:
        return errno.EROFS
    if target.get("osp_active", 1) == 0:
        return errno.EREMOTEIO
    return errno.ENOSPC if target["free"] < 1024 else 0


def laid_out(state, layout):
    """The layout of a new file: of a composite one only the first component has objects."""
    if "components" not in layout:
        return with_objects(state, layout)
    first, *rest = layout["components"]
    made = with_objects(state, first)
    return made and {"components": [made, *rest]}


def with_objects(state, part):
    if part.get("pattern") == "mdt":
        return part
    places = [t["index"] for t in state["targets"] if not cannot_create(t)]
    if members := state.get("pools", {}).get(part.get("pool", "")):
        if part["start"] != -1 and part["start"] not in members:
            return with_objects(state, UNSET)  # nothing of the folder's layout counts then
        places = [index for index in members if index in places]
    if not places:
        return None
    count = part["count"] or state["default"]["count"]
    most = len(places) * abs(count) if count < 0 else count
    if part.get("pattern") != "raid0,overstriped" or count == -1:
        most = min(most, len(places))
    if part.get("osts"):
        chosen = part["osts"]
    else:
        first = part["start"] if part["start"] != -1 else state.get("next", 0)
        state["next"] = (first + 1) % len(state["targets"])
        order = sorted(places, key=lambda index: (index < first, index))
        chosen = [order[i % len(order)] for i in range(most)]
    pattern = "raid0,overstriped" if len(set(chosen)) < len(chosen) else "raid0"
    return part | {"count": len(chosen), "start": chosen[0], "osts": chosen, "pattern": pattern}


def file_layout(state, real):
    """That of a file; one that somebody made without `lfs` gets it from its folder."""
    files = state.setdefault("files", {})
    if real not in files:
        files[real] = laid_out(state, shown_of(state, os.path.dirname(real)) or UNSET)
    return files[real]


def getstripe(state, arguments):
    options = {a for a in arguments if a.startswith("-")}
    paths = [a for a in arguments if not a.startswith("-")]
    if not options <= {"-d", "-y", "--yaml", "--raw"} or not options & {"-y", "--yaml"}:
        raise NotPretended(arguments)
    if not paths:
        raise Stop(4, "error: getstripe: no filename|pathname\n", "Usage: getstripe ...\n")
    found, bad = "", None
    for path in paths:
        try:
            found += get_one(state, path, options)
        except Stop as stop:
            bad = stop
    if bad:
        raise Stop(bad.code, bad.words, found)
    return found


def get_one(state, path, options):
    real = os.path.realpath(path)
    if not path or not os.path.exists(real):
        above = os.path.dirname(real)
        code = errno.ENOTDIR if os.path.exists(above) and not os.path.isdir(above) else errno.ENOENT
        raise Stop(code, f"lfs: getstripe for '{path}' failed: {os.strerror(code)}\n")
    if not inside(state, real):
        words = "Inappropriate ioctl for device"
        raise Stop(
            25,
            f"lfs getstripe: cb_getstripe: '{path}' not on a Lustre fs?: {words} (25)\n"
            f"lfs: getstripe for '{path}' failed: {words}\n",
        )
    if os.path.isdir(real):
        if "-d" not in options and os.listdir(real):
            raise NotPretended(path)
        return lines_of(state, shown_of(state, real), raw="--raw" in options, of="folder")
    layout = file_layout(state, real) if os.path.isfile(real) and not os.path.islink(path) else None
    if layout is None:
        return f"{path} has no stripe info\n"
    return lines_of(state, layout, raw=False, of="file")


def lines_of(state, layout, *, raw, of):
    if not layout or "components" not in layout:
        return "".join(f"{line}\n" for line in plain(state, layout, raw, of))
    parts = layout["components"]
    numbered = of == "file"
    head = [
        f"lcm_layout_gen:    {len(parts) if numbered else 0}",
        "lcm_mirror_count:  1",
        f"lcm_entry_count:   {len(parts)}",
    ]
    listed = state.get("release", "2.17") >= "2.16"
    lines = [*head, "components:"] if listed else [f"  {line}" for line in head]
    begin = 0
    for at, part in enumerate(parts):
        end = "EOF" if part["end"] == -1 else part["end"]
        lines += [f"  - lcme_id:             {at + 1 if numbered else 'N/A'}"] if listed else [
            f"  component{at}:", f"    lcme_id:             {at + 1 if numbered else 'N/A'}"
        ]  # fmt: skip
        lines += [
            f"    lcme_mirror_id:      {0 if numbered else 'N/A'}",
            f"    lcme_flags:          {'init' if numbered and not at else 0}",
            f"    lcme_extent.e_start: {begin}",
            f"    lcme_extent.e_end:   {end}",
            "    sub_layout:",
        ]
        lines += plain(state, part, raw, of, begin)
        begin = part["end"]
    return "".join(f"{line}\n" for line in lines)


def plain(state, part, raw, of, begin=None):
    layout = UNSET | (part or {})
    name, indent = ("lmm_" if of == "file" else ""), "" if begin is None else "      "
    on_mdt, default = layout.get("pattern") == "mdt", state["default"]
    count = layout["count"] or (0 if raw or on_mdt else default["count"])
    size = layout["size"] or (0 if raw else default["size"])
    length = layout["end"] - begin if begin is not None and layout["end"] > 0 else size
    if on_mdt or (of == "file" and length < size):
        size = length
    lines = [
        f"{indent}{name}stripe_count:  {count}",
        f"{indent}{name}stripe_size:   {size}",
        f"{indent}{name}pattern:       {layout.get('pattern', 'raid0') if part else ''}",
    ]
    lines += [f"{indent}{name}layout_gen:    0"] if of == "file" else []
    lines += [f"{indent}{name}mdt_index:     {0 if of == 'file' else -1}" if on_mdt else
              f"{indent}{name}stripe_offset: {layout['start']}"]  # fmt: skip
    lines += [f"{indent}{name}pool:          {layout['pool']}"] if layout.get("pool") else []
    if layout.get("osts") and (of == "file" or begin is None):  # of a folder's component they are not shown
        lines.append(f"{indent}lmm_objects:")
        for index in layout["osts"]:
            fid = f"0x{(1 << 32) + (index << 16):x}:0x0:0x0" if of == "folder" else f"0x{0x240000400:x}:0x2:0x0"
            lines += [f"      - l_ost_idx: {index}", f"        l_fid:     {fid}"]
    return lines


# Targets


def kib(target):
    total, free = target["total"] // 1024, target["free"] // 1024
    return total, target.get("used", target["total"] - target["free"]) // 1024, free


def row(name, total, used, free, where):
    percent = -(-100 * used // (used + free)) if used + free else 0
    return f"{name:<20} {total:11} {used:11} {free:11} {percent:3}%  {where}\n"


def df(state, arguments):
    options, rest = [a for a in arguments if a.startswith("-")], [a for a in arguments if not a.startswith("-")]
    if not set(options) <= {"-v"} or len(rest) > 1:
        raise NotPretended(arguments)
    path = rest[0] if rest else state["mount"]
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise Stop(2, f"error: invalid path '{path}': No such file or directory\n")
    if not inside(state, real):
        raise Stop(95, "", f"df:{path} Not a Lustre filesystem\n")
    name, mount = state["name"], state["mount"]
    out = "UUID                   1K-blocks        Used   Available Use%  Mounted on\n"
    out += row(f"{name}-MDT0000_UUID", *state.get("mdt", (1414116, 2808, 1268496)), f"{mount}[MDT:0] ")
    sums = [0, 0, 0]
    for t in state["targets"]:
        if t.get("state", "active") == "inactive":
            out += f"OST{t['index']:04x}             : inactive device\n" if "-v" in options else ""
            continue
        if t.get("state", "active") == "down":
            raise Hangs(out)
        sums = [a + b for a, b in zip(sums, kib(t), strict=True)]
        uuid = f"{name}-OST{t['index']:04x}_UUID"
        out += row(uuid, *kib(t), f"{mount}[OST:{t['index']}] {t.get('flags', '')}")
    return out + "\n" + row("filesystem_summary:", *sums, f"{mount} ") + "\n"


def osts(state, arguments):
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        raise NotPretended(arguments)
    if arguments and not inside(state, os.path.realpath(arguments[0])):
        return ""
    lines = [
        f"{t['index']}: {state['name']}-OST{t['index']:04x}_UUID "
        f"{'INACTIVE' if t.get('state') == 'inactive' else 'ACTIVE'}\n"
        for t in state["targets"]
    ]
    return "OBDS:\n" + "".join(lines)


def check(state, arguments):
    if arguments != ["osts"]:
        raise NotPretended(arguments)
    out = err = ""
    for t in state["targets"]:
        for who in ("MDT0000", CLIENT) if state.get("server") else (CLIENT,):
            name = f"{state['name']}-OST{t['index']:04x}-osc-{who}"
            if t.get("state") == "down":
                err += f"lfs check: error: check '{name}': Resource temporarily unavailable (11)\n"
            elif t.get("state") == "inactive" if who == CLIENT else t.get("osp_active") == 0:
                err += f"lfs check: error: check '{name}': Cannot send after transport endpoint shutdown (108)\n"
            else:
                out += f"{name} active.\n"
    raise Stop(0, err, out)


def pool_list(state, arguments):
    if len(arguments) != 1:
        raise NotPretended(arguments)
    name, pools = state["name"], state.get("pools", {})
    system, _, pool = arguments[0].partition(".")
    if arguments[0].startswith("/") or system != name:
        raise NotPretended(arguments)
    if not pool:
        return f"Pools from {name}:\n" + "".join(f"{name}.{each}\n" for each in pools)
    head = f"Pool: {name}.{pool}\n"
    if pool not in pools:
        path = f"/proc/fs/lustre/lov/{name}-MDT0000-mdtlov/pools/{pool}"
        raise Stop(2, f"lfs pool_list: cannot open {path}: No such file or directory (2)\n", head)
    return head + "".join(f"{name}-OST{index:04x}_UUID\n" for index in pools[pool])


def version(state, arguments):
    if arguments:
        raise NotPretended(arguments)
    return f"lfs {state.get('version', '2.17.57_62_gc881f8e_dirty')}\n"


# Parameters


def get_param(state, arguments):
    if not arguments or arguments[0].startswith("-"):
        raise NotPretended(arguments)
    known = parameters(state)
    out = err = ""
    for pattern in arguments:
        if pattern.split(".")[0] not in ("osp", "osc", "obdfilter", "no") or pattern.split(".")[-1] not in PARAMETERS:
            raise NotPretended(pattern)
        names = sorted(name for name in known if fnmatch.fnmatchcase(name, pattern))
        out += "".join(f"{name}={known[name]}\n" for name in names)
        if not names:
            path = pattern.replace(".", "/")
            err += f"error: get_param: param_path '{path}': No such file or directory\n"
    if "obdfilter.*.job_stats" in arguments:
        step(state)
    if err:
        raise Stop(2, err, out)
    return out


def parameters(state):
    """Those of a client; where `server` is set also those of an MDS and OSS on the same machine."""
    name, found = state["name"], {}
    for t in state["targets"]:
        ost = f"{name}-OST{t['index']:04x}"
        down, inactive = t.get("state") == "down", t.get("state") == "inactive"
        clients = {CLIENT: 0 if inactive else 1}
        if state.get("server"):
            active = t.get("osp_active", 1)
            clients["MDT0000"] = active
            status = -19 if down else -108 if not active else -28 if t["free"] < 1024 else 0
            found |= {
                f"osp.{ost}-osc-MDT0000.max_create_count": t.get("max_create_count", 20000),
                f"osp.{ost}-osc-MDT0000.active": active,
                f"osp.{ost}-osc-MDT0000.prealloc_status": status,
            }
            if not down:
                flags = t.get("flags", "")
                found |= {
                    f"obdfilter.{ost}.degraded": int("D" in flags),
                    f"obdfilter.{ost}.no_create": int("N" in flags),
                    f"obdfilter.{ost}.readonly": int("R" in flags),
                    f"obdfilter.{ost}.kbytesavail": kib(t)[2],
                }
        for who, active in clients.items():
            found[f"osc.{ost}-osc-{who}.active"] = active
            if not state.get("user"):
                found[f"osc.{ost}-osc-{who}.import"] = import_of(f"{ost}-osc-{who}", ost, down, active)
    for ost, jobs in state.get("job_stats", {}).items():
        found[f"obdfilter.{ost}.job_stats"] = job_stats(jobs)
    return found


def import_of(name, ost, down, active):
    state = ("    state: DISCONN\n" if down else "    state: FULL\n") if active else ""
    return f"\nimport:\n    name: {name}\n    target: {ost}_UUID\n{state}    import_flags: [ IMPF_REPLAYABLE, IMPF_PINGABLE ]"


def job_stats(jobs):
    text = "" if not jobs else "\njob_stats:"
    for job in jobs:
        text += f"\n- job_id:          {escaped(job['job'])}"
        for key, at in (("snapshot_time", job["latest"]), ("start_time", job["latest"]), ("elapsed_time", 0)):
            text += f"\n  {key + ':':<16} {at:.9f} secs.nsecs"
        for key in ("read", "write"):
            text += counter(f"{key}_bytes", "bytes", job[key], ", hist: {  }")
        for key in OPERATIONS:
            text += counter(key, "usecs", job.get(key, 0))
    return text


def counter(name, unit, total, more=""):
    one = 1 if total else 0
    numbers = f"samples: {one:11}, unit: {unit}, min: {total:8}, max: {total:8}, sum: {total:16}, sumsq: {total**2:18}"
    return f"\n  {name + ':':<16} {{ {numbers}{more} }}"


def escaped(job):
    """Quoted and escaped as the kernel does it, to whom some bytes above 191 are letters."""
    plain_bytes = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:@"
    text = b"".join(
        bytes([b]) if b in plain_bytes or b >= 0xC0 else b"\\x%02X" % b for b in job.encode("utf-8", "surrogateescape")
    ).decode("utf-8", "surrogateescape")
    return text if re.fullmatch(r"[A-Za-z0-9_.-]+", text) else f'"{text}"'


def step(state):
    for jobs in state.get("job_stats", {}).values():
        for job in jobs:
            job["write"] += job.get("step", 0)
