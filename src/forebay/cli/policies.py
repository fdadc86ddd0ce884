"""`forebay policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from forebay.show.options import Json
from forebay.show.output import print_json, print_table

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
    from forebay.decide.registry import policies as all_policies

    found = [
        _described(policy)
        for kind in _TITLES
        for policy in sorted(all_policies(kind).values(), key=lambda policy: policy.difficulty)
    ]
    if json:
        print_json({"policies": found})
        return
    for kind, title in _TITLES.items():
        rows = [_row(policy) for policy in found if policy["kind"] == kind]
        columns = ("to know", "inputs") if kind in _NEEDS else ("options",)
        print_table(title, ("policy", *columns, "what it does", "source"), rows)


def _described(policy: Policy) -> dict[str, Any]:
    inputs = sorted(policy.inputs, key=lambda i: (i.difficulty, i.label))
    described = {
        "kind": policy.kind,
        "name": policy.name,
        "inputs": [i.label for i in inputs] + ["a simulator"] * policy.simulates,
        "difficulty": _DIFFICULTY[policy.difficulty[0]],
        "options": dict(policy.options),
        "source": policy.source,
        "summary": policy.summary,
    }
    return {**described, "keeps_file_order": policy.keeps_file_order} if policy.kind == "order" else described


def _row(policy: dict[str, Any]) -> tuple[str, ...]:
    options = " ".join(f"{name}={value}" for name, value in policy["options"].items())
    needs = (policy["difficulty"], ", ".join(policy["inputs"]) or "-")
    return (
        policy["name"],
        *(needs if policy["kind"] in _NEEDS else (options or "-",)),
        policy["summary"],
        policy["source"],
    )
