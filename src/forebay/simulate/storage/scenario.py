"""A storage scenario: the platform, requests and rules in table [storage] of a TOML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from forebay.decide.registry import check_policy
from forebay.history.platforms import read_platform
from forebay.history.toml import BytesPerSecond, BytesWithUnit, Field, Seconds, Table, load_toml, validate
from forebay.history.traces import read_requests, requests_of_history
from forebay.history.traces.swf import volume_per_processor
from forebay.model.errors import BadInput
from forebay.model.reference_platforms import NAMES, reference_platform
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.profile.synthetic_theta_2020 import theta_2020
from forebay.simulate.storage.rules import INTERVAL, OPTIMAL, TRIES, Feedback, Rules

THETA = "theta-2020"
HISTORY = "history"
_SUFFIXES = (".toml", ".yml", ".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageScenario:
    """The input of a simulation."""

    path: Path
    platform: Platform
    requests: Requests
    policy: str | None
    rules: Rules
    feedback: Feedback | None


class _Requeue(Table):
    tries: Annotated[int, Field(ge=0, le=1_000_000)] = TRIES
    """How often a refused request comes again."""
    interval: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] = INTERVAL
    """Time between its tries."""


class _Feedback(Table):
    pfs: Annotated[BytesPerSecond, Field(gt=0)] = Feedback().pfs
    """Bandwidth of the parallel file system, for jobs that got no space."""
    phases: Annotated[int, Field(ge=1, le=10_000)] = Feedback().phases
    """In how many phases a job does its I/O."""


class _Storage(Table):
    platform: str
    """A platform of the paper by name, or a file: platform.toml, or StorAlloc's system.yml."""
    requests: str | list[str]
    """theta-2020[:N], history[:DB], or one or two files of a trace."""
    swf_volume: str | None = None
    """For SWF: `memory`, or a size per processor."""
    policy: str | None = None
    """The storage policy, several by commas, or all; `optimal` is a bound for all of them."""
    split: Annotated[BytesWithUnit, Field(ge=1, le=1e18)] | Literal[False] = False
    """Larger requests are split; false: none is."""
    requeue: bool | _Requeue = False
    """Let refused requests come again; a table says how."""
    as_: Literal["correct", "storalloc"] = Field(default="correct", alias="as")
    """The rules: `correct`, or StorAlloc's to the letter."""
    feedback: bool | _Feedback = False
    """Let jobs take longer where they share bandwidth; a table says how."""


class _File(Table):
    storage: _Storage
    """Which platform, whose requests, by which rules."""


def read_storage_scenario(path: Path, changes: dict[str, Any] | None = None, *, seed: int = 0) -> StorageScenario:
    """Read a scenario from a TOML file; docs/storage.md describes the format. `changes` replace keys of [storage]."""
    document = load_toml(path)
    table = document.get("storage")
    if isinstance(table, dict):  # if the command line switches a key on, keep the file's table with details
        table |= {k: v for k, v in (changes or {}).items() if not (v is True and isinstance(table.get(k), dict))}
    parsed = validate(path, document, _File).storage
    where = f"{path}: storage"
    for spec in (parsed.policy or "").split(","):
        if spec.strip() not in ("", "all", OPTIMAL):
            check_policy(f"{where}.policy", "storage", spec.strip())
    requeue = _Requeue(tries=0) if parsed.requeue is False else _Requeue() if parsed.requeue is True else parsed.requeue
    feedback = parsed.feedback if isinstance(parsed.feedback, _Feedback) else _Feedback() if parsed.feedback else None
    if feedback and parsed.as_ == "storalloc":
        raise BadInput(f"{where}.feedback", "needs as = 'correct': StorAlloc has no feedback")
    try:
        volume_per_processor(parsed.swf_volume)
    except BadInput as error:
        raise BadInput(f"{where}.swf_volume", error.reason) from None
    try:
        rules = Rules(mode=parsed.as_, split=int(parsed.split or 0), tries=requeue.tries, interval=requeue.interval)
    except BadInput as error:
        raise BadInput(f"{path}: {error.where}", error.reason) from None
    return StorageScenario(
        path=path,
        platform=find_platform(parsed.platform, path.parent, f"{where}.platform"),
        requests=find_requests(
            parsed.requests, path.parent, f"{where}.requests", seed=seed, swf_volume=parsed.swf_volume
        ),
        policy=parsed.policy,
        rules=rules,
        feedback=Feedback(**feedback.model_dump()) if feedback else None,
    )


def find_platform(name: str, folder: Path, where: str) -> Platform:
    """Return a platform of the paper by name, or read one from a file."""
    if name.endswith(_SUFFIXES):
        return read_platform(folder / name)
    if name not in NAMES:
        raise BadInput(where, f"unknown platform {name!r}; give a file (.toml, .yml) or one of: {', '.join(NAMES)}")
    return reference_platform(name)


def find_requests(
    names: str | Sequence[str], folder: Path, where: str = "requests", *, seed: int = 0, swf_volume: str | None = None
) -> Requests:
    """Read requests from one or two files or a history (`history[:DB]`), or draw them (`theta-2020[:N]`)."""
    sources = [names] if isinstance(names, str) else list(names)
    if not any(sources):
        raise BadInput(where, f"is empty; name a file, {THETA!r} or {HISTORY!r}")
    drawn, _, count = sources[0].partition(":")
    if drawn == THETA and len(sources) == 1:
        if count and not (count.isdecimal() and len(count) <= 9 and 1 <= int(count) <= 10**8):
            raise BadInput(where, f"{sources[0]!r}: the number must be a whole number from 1 to 100,000,000")
        return theta_2020(np.random.default_rng(seed), **({"requests": int(count)} if count else {}))
    if drawn == HISTORY and len(sources) == 1:
        return requests_of_history(count or None)
    return read_requests([folder / name for name in sources], swf_volume=swf_volume)
