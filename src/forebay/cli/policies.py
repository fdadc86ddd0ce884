"""`forebay policies`: every policy, what it needs to know, and its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from forebay.show.options import Json
from forebay.show.output import Document, print_json, print_table

if TYPE_CHECKING:
    from forebay.decide.policy import Kind, Policy

commands = typer.Typer()
_DIFFICULTY = ("nothing", "easy", "medium", "hard")
_TITLES: dict[Kind, str] = {
    "allocate": "How many targets: --allocate",
    "place": "Which targets: --place",
    "storage": "Which disks: --policy (and 'optimal', a bound for all of these)",
    "stripe": "How files are striped: advise --policy",
    "order": "Which request next: forward bench --schedulers (window in ns, aggregate in bytes)",
    "tune": "Which setting of a scheduler: forward council --tuner",
}
_NEEDS: tuple[Kind, ...] = ("allocate", "place", "storage", "stripe")  # kinds that differ in what they need to know


@commands.command(epilog="Example: forebay policies")
def policies(json: Json = False) -> None:
    """List all policies: what each must know, and where it is from."""
    from forebay.decide.registry import policies as policies_of

    easiest_first = {kind: sorted(policies_of(kind).values(), key=lambda p: p.difficulty) for kind in _TITLES}
    if json:
        print_json({"policies": [_document(policy) for group in easiest_first.values() for policy in group]})
        return
    for kind, group in easiest_first.items():
        columns = ("to know", "inputs") if kind in _NEEDS else ("options",)
        print_table(_TITLES[kind], ("policy", *columns, "what it does", "source"), map(_row, group))


def _document(policy: Policy) -> Document:
    document = {
        "kind": policy.kind,
        "name": policy.name,
        "inputs": _inputs(policy),
        "difficulty": _DIFFICULTY[policy.difficulty[0]],
        "options": dict(policy.options),
        "source": policy.source,
        "summary": policy.summary,
    }
    return {**document, "keeps_file_order": policy.keeps_file_order} if policy.kind == "order" else document


def _row(policy: Policy) -> tuple[str, ...]:
    cells: tuple[str, ...]
    if policy.kind in _NEEDS:
        cells = (_DIFFICULTY[policy.difficulty[0]], ", ".join(_inputs(policy)) or "-")
    else:
        cells = (" ".join(f"{name}={value}" for name, value in policy.options.items()) or "-",)
    return (policy.name, *cells, policy.summary, policy.source)


def _inputs(policy: Policy) -> list[str]:
    inputs = sorted(policy.inputs, key=lambda given: (given.difficulty, given.label))
    return [given.label for given in inputs] + ["a simulator"] * policy.simulates
