"""`forebay policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.show.cli.options import Json

if TYPE_CHECKING:
    from forebay.decide.policy import Kind

EXAMPLE = "Example: forebay policies"
_DIFFICULTY = ("nothing", "easy", "medium", "hard")
_TITLES: dict[Kind, str] = {
    "allocate": "How many targets: --allocate",
    "place": "Which targets: --place",
    "storage": "Which disks: --policy (and 'optimal', a bound for all of these)",
    "stripe": "How files are striped: advise --policy",
}


def policies(json: Json = False) -> None:
    """Every policy, what it needs to know, and where it comes from, easy to hard."""
    from forebay.decide.registry import policies as all_policies
    from forebay.show.output import print_json, print_table

    found = []
    for kind in _TITLES:
        for policy in sorted(all_policies(kind).values(), key=lambda p: p.difficulty):
            inputs = sorted(policy.inputs, key=lambda i: (i.difficulty, i.label))
            found.append(
                {
                    "kind": kind,
                    "name": policy.name,
                    "inputs": [i.label for i in inputs] + ["a simulator"] * policy.simulates,
                    "difficulty": _DIFFICULTY[policy.difficulty[0]],
                    "options": dict(policy.options),
                    "source": policy.source,
                    "summary": policy.summary,
                }
            )
    if json:
        print_json({"policies": found})
        return
    for kind, title in _TITLES.items():
        rows = [
            (p["name"], p["difficulty"], ", ".join(p["inputs"]) or "-", p["summary"], p["source"])
            for p in found
            if p["kind"] == kind
        ]
        print_table(title, ("policy", "to know", "inputs", "what it does", "source"), rows)
