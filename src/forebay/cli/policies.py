"""`forebay policies`: lists every policy, what it needs to know, and its source."""

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
    "schedule": "Which job starts next: study jobs --schedule",
}
_NEEDS: tuple[Kind, ...] = ("allocate", "place", "storage", "stripe")  # kinds that differ in what they need to know


@commands.command(epilog="Example: forebay policies")
def policies(json: Json = False) -> None:
    """List all policies, with what each needs to know and its source."""
    from forebay.decide.registry import policies as policies_of

    groups: dict[Kind, list[Document]] = {}
    for kind in _TITLES:
        easiest_first = sorted(policies_of(kind).values(), key=lambda policy: policy.difficulty)
        groups[kind] = [_document(policy) for policy in easiest_first]
    if json:
        print_json({"policies": [document for group in groups.values() for document in group]})
        return
    for kind, group in groups.items():
        columns = ("to know", "inputs") if kind in _NEEDS else ("options",)
        print_table(_TITLES[kind], ("policy", *columns, "what it does", "source"), map(_row, group))


def _document(policy: Policy) -> Document:
    inputs = sorted(policy.inputs, key=lambda entry: (entry.difficulty, entry.label))
    document = {
        "kind": policy.kind,
        "name": policy.name,
        "inputs": [entry.label for entry in inputs] + ["a simulator"] * policy.simulates,
        "difficulty": _DIFFICULTY[policy.difficulty[0]],
        "options": dict(policy.options),
        "source": policy.source,
        "summary": policy.summary,
    }
    return {**document, "keeps_file_order": policy.keeps_file_order} if policy.kind == "order" else document


def _row(document: Document) -> tuple[str, ...]:
    options = " ".join(f"{name}={value}" for name, value in document["options"].items())
    needs = document["difficulty"], ", ".join(document["inputs"]) or "-"
    cells = needs if document["kind"] in _NEEDS else (options or "-",)
    return (document["name"], *cells, document["summary"], document["source"])
