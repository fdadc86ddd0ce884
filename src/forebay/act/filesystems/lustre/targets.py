"""Which OSTs, MDTs and pools there are and which OSTs take no files, in the output of `lfs` and `lctl`."""

import re
from dataclasses import dataclass

from forebay.model.layout import Target

KIB = 1 << 10
_FULL = 1 << 30  # an OST at 100 % with fewer free bytes is full: clients hold them as grants
# lfs-df(1); a letter in lower case (f: flash) is not an issue with the target.
_STATES = {
    "D": "degraded",
    "N": "accepts no new objects (no-precreate)",
    "R": "read-only",
    "S": "out of space",
    "I": "out of inodes",
}
_USED = re.compile(
    r"^(?P<uuid>\S+)\s+\d+\s+\d+\s+(?P<free>\d{1,18})\s+(?P<used>\S+)\s+.*\[OST:(?P<shown>\d{1,9})\]"
    r"(?:\s+(?P<flags>\S+))?$"
)
_AWAY = re.compile(r"^(?:\S+-)?OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?\s*:\s*(?P<because>\S.*)$")
_UUID = re.compile(r"(?P<system>\S+)-OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?$")


def parse_df(text: str) -> tuple[Target, ...]:
    """Parse the OSTs of `lfs df -v`, ascending. Flagged, full and unreachable OSTs are unusable, with the reason."""
    targets = {t.index: t for line in text.splitlines() if (t := _parse_target(line.strip()))}
    return tuple(targets[index] for index in sorted(targets))


def _parse_target(line: str) -> Target | None:
    if used := _USED.match(line):
        # The name contains the index that setstripe takes; in some releases, the number in brackets counts lines.
        named, free = _UUID.search(used["uuid"]), int(used["free"]) * KIB
        issues = [_STATES.get(flag, f"flagged {flag}") for flag in used["flags"] or "" if not flag.islower()]
        if free == 0 or (used["used"] == "100%" and free < _FULL):
            issues.append(_STATES["S"])  # older releases do not flag it
        return Target(
            index=int(named["index"], 16) if named else int(used["shown"]),
            free_bytes=free,
            usable=not issues,
            because=", ".join(dict.fromkeys(issues)),
        )
    if away := _AWAY.match(line):
        return Target(index=int(away["index"], 16), usable=False, because=away["because"].lower())
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ost:
    """An OST in the list of `lfs osts`, which asks no server. `system` is the name of the file system."""

    index: int
    system: str
    active: bool = True

    @property
    def key(self) -> tuple[str, int]:
        return self.system, self.index


def parse_osts(text: str) -> tuple[Ost, ...]:
    """
    >>> parse_osts("OBDS:\\n2: scratch-OST0002_UUID INACTIVE\\n")
    (Ost(index=2, system='scratch', active=False),)
    """
    lines = re.findall(r"^\s*(\d{1,9}):\s+(\S+)\s+(\w+)\s*$", text, re.MULTILINE)
    named = ((int(index), _UUID.search(uuid), state) for index, uuid, state in lines)
    return tuple(
        Ost(index=index, system=name["system"] if name else "", active=state == "ACTIVE")
        for index, name, state in sorted(named, key=lambda line: line[0])
    )


_MDT = re.compile(r"^\S+\s+\d+\s+\d+\s+(?P<free>\d{1,18})\s+\S+\s+.*\[MDT:\d+\]", re.MULTILINE)


def parse_mdts(text: str) -> tuple[int, ...]:
    """Parse the free bytes of the MDTs in the output of `lfs df`."""
    return tuple(int(mdt["free"]) * KIB for mdt in _MDT.finditer(text))


def parse_pools(text: str) -> tuple[str, ...]:
    """
    >>> parse_pools("Pools from scratch:\\nscratch.flash\\n")
    ('flash',)
    """
    return tuple(line.partition(".")[2].strip() for line in text.splitlines()[1:] if "." in line)


def parse_pool(text: str) -> frozenset[int]:
    """Parse the OSTs of `lfs pool_list SYSTEM.POOL`.

    >>> sorted(parse_pool("Pool: scratch.fast\\nscratch-OST0001_UUID\\nscratch-OST000a_UUID\\n"))
    [1, 10]
    """
    return frozenset(int(name["index"], 16) for line in text.splitlines()[1:] if (name := _UUID.search(line.strip())))


STATE_PARAMETERS = ("osp.*.active", "osp.*.max_create_count", "osp.*.prealloc_status", "osc.*.import")
"""The parameters to read with `lctl get_param`. Only an MDS has osp.*, and only root can read osc.*.import."""
Issues = dict[tuple[str, int], str]  # why an OST is unusable, by file system and index
_PARAMETER = re.compile(
    r"^(?P<kind>osp|osc)\.(?P<system>.+)-OST(?P<index>[0-9a-fA-F]{4,8})-osc-(?P<client>[^.]+)\.(?P<name>\w+)=(?P<value>.*)$"
)
_IMPORT_STATE = re.compile(r"^\s+state:\s*(?P<state>\w+)\s*$")
# An idle import reconnects by itself when it is needed.
_CONNECTED = {"FULL", "IDLE", "NEW"}
_NO_SPACE = "-28"


def parse_states(text: str) -> tuple[Issues, Issues]:
    """Parse STATE_PARAMETERS: return the OSTs that this client has lost, and those where the MDS creates no objects."""
    lost: Issues = {}
    drained: Issues = {}
    current: tuple[str, int] | None = None
    for line in text.splitlines():
        if parameter := _PARAMETER.match(line):
            ost = parameter["system"], int(parameter["index"], 16)
            # An MDS lists its own connections among those of the clients.
            is_import = parameter["kind"] == "osc" and parameter["name"] == "import"
            current = ost if is_import and not parameter["client"].startswith("MDT") else None
            if parameter["kind"] == "osp" and (why := _drain_reason(parameter["name"], parameter["value"])):
                drained.setdefault(ost, why)
        elif current and (state := _IMPORT_STATE.match(line)) and state["state"] not in _CONNECTED:
            lost[current] = f"not connected ({state['state']})"
    return lost, drained


def _drain_reason(name: str, value: str) -> str:
    if name == "active" and value == "0":
        return "inactive on the MDS"
    if name == "max_create_count" and value == "0":
        return "drained (max_create_count=0 on the MDS)"
    if name == "prealloc_status" and value != "0":
        return _STATES["S"] if value == _NO_SPACE else f"the MDS cannot create objects there (status {value})"
    return ""


_UNREACHABLE = re.compile(
    r"check '(?P<system>.+)-OST(?P<index>[0-9a-fA-F]{4,8})-osc-(?!MDT)[^']*': (?P<because>.*?)\s*(?:\(\d+\))?$",
    re.MULTILINE,
)


def parse_check(text: str) -> Issues:
    """Parse the OSTs that `lfs check osts` reports on stderr."""
    return {(f["system"], int(f["index"], 16)): f["because"].lower() for f in _UNREACHABLE.finditer(text)}
