"""The grid of runs: the paper's Table 3, or another from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from forebay.decide.registry import check_policy
from forebay.history.toml import BytesWithUnit, Field, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.model.reference_platforms import NAMES, reference_platform
from forebay.model.system import Platform
from forebay.simulate.storage.rules import OPTIMAL, SPLIT, TRIES, Mode, Rules
from forebay.simulate.storage.scenario import find_platform

PAPER_POLICIES = ("random", "round-robin", "worst-fit", "best-bandwidth")
HETEROGENEOUS = "32TB/heterogeneous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Every policy on every platform, by every rule: 4 x 16 x 2 x 2 = 256 runs are Table 3."""

    platforms: tuple[Platform, ...]
    policies: tuple[str, ...]
    rules: tuple[Rules, ...]


def paper_grid(policies: Sequence[str], modes: Sequence[Mode]) -> tuple[Block, ...]:
    """Table 3, and the heterogeneous platform of Table 4 with split requests."""
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
    """Platforms of the paper by name, or files."""
    policies: list[str]
    """Storage policies; `optimal` is the bound."""
    split: list[Annotated[BytesWithUnit, Field(ge=1, le=1e18)] | Literal[False]] = Field(default=[float(SPLIT)])
    """Above which sizes requests are split; false: none is."""
    requeue: list[bool] = Field(default=[False])
    """Whether refused requests come again."""
    as_: list[Mode] = Field(default=["correct"], alias="as")
    """The rules: `correct`, or StorAlloc's to the letter."""


class _Grid(Table):
    grid: list[_Block]
    """Every combination of what it names is run; one table for each grid."""


def read_grid(path: Path) -> tuple[Block, ...]:
    """A grid from the [[grid]] tables of a TOML file; docs/storage.md describes it."""
    blocks = []
    for index, parsed in enumerate(validate(path, load_toml(path), _Grid).grid):
        where = f"{path}: grid[{index}]"
        for key in ("platforms", "policies", "split", "requeue", "as_"):
            if not getattr(parsed, key):
                raise BadInput(f"{where}.{key.rstrip('_')}", "must not be empty")
        blocks.append(
            Block(
                platforms=tuple(find_platform(name, path.parent, f"{where}.platforms") for name in parsed.platforms),
                policies=tuple(
                    spec if spec == OPTIMAL else check_policy(f"{where}.policies", "storage", spec)
                    for spec in parsed.policies
                ),
                rules=tuple(
                    _rules(where, mode, int(split or 0), TRIES if requeue else 0)
                    for mode in parsed.as_
                    for split in parsed.split
                    for requeue in parsed.requeue
                ),
            )
        )
    if not blocks:
        raise BadInput(f"{path}: grid", "there is none; add at least one [[grid]]")
    _check_distinct(path, blocks)
    return tuple(blocks)


def _rules(where: str, mode: Mode, split: int, tries: int) -> Rules:
    try:
        return Rules(mode=mode, split=split, tries=tries)
    except BadInput as error:
        raise BadInput(f"{where}.{error.where.removeprefix('storage.')}", error.reason) from None


def _check_distinct(path: Path, blocks: Sequence[Block]) -> None:
    """Runs are told apart by these in the results."""
    seen = set()
    for index, block in enumerate(blocks):
        for platform, spec, rules in product(block.platforms, block.policies, block.rules):
            if (platform.name, spec, rules) in seen:
                where = f"{path}: grid[{index}]"
                raise BadInput(where, f"{spec!r} on {platform.name!r} comes twice by the same rules")
            seen.add((platform.name, spec, rules))
