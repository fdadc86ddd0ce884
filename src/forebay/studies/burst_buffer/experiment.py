"""The evaluation of Monniot et al. 2023, section 5: every policy on every platform, by both sets of rules."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from forebay.decide.registry import check_policy, find
from forebay.history.toml import BytesWithUnit, Field, Table, load_toml, validate
from forebay.kernel_cache import sources_digest
from forebay.model.errors import BadInput
from forebay.model.reference_platforms import NAMES, reference_platform
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.show.rows import Rows
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import OPTIMAL, SPLIT, TRIES, Feedback, Mode, Rules
from forebay.simulate.storage.run import bound_of, run_storage
from forebay.simulate.storage.scenario import find_platform
from forebay.studies.burst_buffer.results import PAPER_POLICIES, ROW, StorageResults, layout_of
from forebay.studies.finished_pieces import Store, concatenate
from forebay.studies.study import Study, digest, policy_digests

HETEROGENEOUS = "32TB/heterogeneous"
_OF_DISKS = ("node", "disk", "max_use", "mean_use", "max_allocations", "mean_allocations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Every policy on every platform under every set of rules: Table 3 has 4 x 16 x 2 x 2 = 256 runs."""

    platforms: tuple[Platform, ...]
    policies: tuple[str, ...]
    rules: tuple[Rules, ...]


def paper_grid(policies: Sequence[str], modes: Sequence[Mode]) -> tuple[Block, ...]:
    """Return the runs of Table 3, and those on the heterogeneous platform of Table 4 with split requests."""
    alike = tuple(reference_platform(name) for name in NAMES if name != HETEROGENEOUS)
    rules = tuple(
        Rules(mode=mode, split=split, tries=tries) for mode in modes for split in (0, SPLIT) for tries in (0, TRIES)
    )
    split = tuple(Rules(mode=mode, split=SPLIT) for mode in modes)
    return (
        Block(platforms=alike, policies=tuple(policies), rules=rules),
        Block(platforms=(reference_platform(HETEROGENEOUS),), policies=tuple(policies), rules=split),
    )


class _Block(Table):
    platforms: list[str]
    """Names of the paper's platforms, or files."""
    policies: list[str]
    """Storage policies; `optimal` is the bound."""
    split: list[Annotated[BytesWithUnit, Field(ge=1, le=1e18)] | Literal[False]] = Field(default=[float(SPLIT)])
    """Sizes above which requests are split; false: never."""
    requeue: list[bool] = Field(default=[False])
    """Whether refused requests are retried."""
    as_: list[Mode] = Field(default=["correct"], alias="as")
    """The rules: `correct`, or `storalloc` for StorAlloc's own."""


class _Grid(Table):
    grid: list[_Block]
    """Each [[grid]] table runs every combination of its values."""


def read_grid(path: Path) -> tuple[Block, ...]:
    """Read the [[grid]] tables of a TOML file, which docs/storage.md describes."""
    blocks: list[Block] = []
    runs = set()  # by the columns that identify a run in the results
    for index, parsed in enumerate(validate(path, load_toml(path), _Grid).grid):
        where = f"{path}: grid[{index}]"
        for key in ("platforms", "policies", "split", "requeue", "as_"):
            if not getattr(parsed, key):
                raise BadInput(f"{where}.{key.rstrip('_')}", "must not be empty")
        for spec in parsed.policies:
            if spec != OPTIMAL:
                check_policy(f"{where}.policies", "storage", spec)
        block = Block(
            platforms=tuple(find_platform(name, path.parent, f"{where}.platforms") for name in parsed.platforms),
            policies=tuple(parsed.policies),
            rules=tuple(
                _rules(where, mode, int(split or 0), TRIES if requeue else 0)
                for mode, split, requeue in product(parsed.as_, parsed.split, parsed.requeue)
            ),
        )
        for platform, spec, rules in product(block.platforms, block.policies, block.rules):
            if (platform.name, spec, rules) in runs:
                raise BadInput(where, f"runs {spec!r} on {platform.name!r} twice with the same rules; remove one")
            runs.add((platform.name, spec, rules))
        blocks.append(block)
    if not blocks:
        raise BadInput(f"{path}: grid", "is empty; add at least one [[grid]] table")
    return tuple(blocks)


def _rules(where: str, mode: Mode, split: int, tries: int) -> Rules:
    try:
        return Rules(mode=mode, split=split, tries=tries)
    except BadInput as error:
        raise BadInput(f"{where}.{error.where.removeprefix('storage.')}", error.reason) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstBufferStudy(Study[StorageResults]):
    """The runs of a study. Mode "storalloc" runs only the policies that StorAlloc has."""

    requests: Requests
    blocks: tuple[Block, ...]
    feedback: Feedback | None
    seed: int
    name = "burst-buffer"
    noun = "platform"

    def settings(self) -> dict[str, object]:
        columns = (getattr(self.requests, c) for c in ("ids", "submitted", "start", "duration", "bytes", "volume"))
        specs = sorted({spec for block in self.blocks for spec in block.policies} - {OPTIMAL})
        return {
            "version of Forebay": sources_digest(),
            "policies": policy_digests((("storage", specs),)),
            "requests": digest(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)),
            "grid": digest(repr(self.blocks)),
            "feedback": None if self.feedback is None else [self.feedback.pfs, self.feedback.phases],
            "seed": self.seed,
        }

    def pieces(self) -> dict[str, tuple[Platform, Rules, tuple[str, ...]]]:
        """Return, by key, a platform, a set of rules, and the policies to run there."""
        return {
            f"block-{b}/platform-{p}/rules-{r}": (platform, rules, block.policies)
            for b, block in enumerate(self.blocks)
            for p, platform in enumerate(block.platforms)
            for r, rules in enumerate(block.rules)
        }

    def keys(self) -> list[str]:
        return list(self.pieces())

    def check(self) -> None:
        if not any(_can_run(rules, spec) for _, rules, specs in self.pieces().values() for spec in specs):
            raise BadInput("policies", f"StorAlloc has none of these; 'storalloc' needs {', '.join(PAPER_POLICIES)}")

    def run_piece(self, key: str) -> Rows:
        """Run every policy on one platform under one set of rules: a ROW for each disk of each run."""
        platform, rules, policies = self.pieces()[key]
        feedback = None if rules.letter else self.feedback
        rows = [np.zeros(0, dtype=ROW)]
        for spec in (spec for spec in policies if _can_run(rules, spec)):
            if spec == OPTIMAL:
                bound, total = bound_of(platform, self.requests, rules), self.requests.bytes.sum()
                numbers = {"disk": -1, "requests": len(self.requests), "sum_bytes": total}
                numbers |= {"allocated_bytes": bound.bytes, "allocated_share": bound.bytes / total}
                rows.append(_make_rows(platform, rules, spec, 1, numbers))
            else:
                seed = zlib.crc32(f"{self.seed} {key} {spec}".encode())
                run = run_storage(platform, self.requests, find("storage", spec), rules, feedback=feedback, seed=seed)
                outcome = document(run)
                split = {f"split_{name}": value for name, value in outcome["split"].items()}
                disks = {name: [disk[name] for disk in outcome["disks"]] for name in _OF_DISKS}
                disks["disk_capacity"] = [disk["capacity"] for disk in outcome["disks"]]
                disks["kind"] = [str(disk.fields.get("kind", "")) for disk in platform.disks]
                numbers = outcome | split | (outcome["jobs"] or {}) | disks
                rows.append(_make_rows(platform, rules, outcome["policy"], len(platform.disks), numbers))
        return np.concatenate(rows)

    def collect(self, pieces: Store) -> StorageResults:
        [rows] = concatenate(pieces, self.keys(), ROW)
        return StorageResults(
            origin=self.requests.origin, requests=len(self.requests), settings=self.settings(), rows=rows
        )


def _can_run(rules: Rules, spec: str) -> bool:
    """Whether the rules admit the policy: StorAlloc's rules admit only its own policies, and not the bound."""
    return not rules.letter or spec in PAPER_POLICIES


def _make_rows(platform: Platform, rules: Rules, policy: str, count: int, numbers: Mapping[str, Any]) -> Rows:
    """Return rows with these numbers; a column without a number is nan or empty."""
    of_run = {"platform": platform.name, "layout": layout_of(platform.name), "capacity": platform.capacity}
    of_run |= {"policy": policy} | {name: getattr(rules, name) for name in ("mode", "split", "tries", "interval")}
    rows = np.zeros(count, dtype=ROW)
    for column in ROW.names or ():
        blank = np.nan if ROW[column] == np.float64 else rows[column]
        rows[column] = of_run.get(column, numbers.get(column, blank))
    return rows
