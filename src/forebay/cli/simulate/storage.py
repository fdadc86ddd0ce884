"""`forebay simulate` of a scenario with a [storage] table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import format_size
from forebay.show.options import policy_list
from forebay.show.output import print_json, print_table, progress

if TYPE_CHECKING:
    from forebay.simulate.storage.run import Run
    from forebay.simulate.storage.scenario import StorageScenario

DEFAULT_POLICY = "forebay"


def from_here(name: str) -> str:
    """A file named on the command line, so that a scenario in another folder finds it; other names stay."""
    return str(Path(name).absolute()) if Path(name).suffix and not name.startswith("history:") else name


def simulate_storage(
    file: Path, changes: dict[str, Any], *, seed: int, decisions: Path | None, plot: Path | None, json: bool
) -> None:
    """One run under each policy; `changes` are keys of [storage] that the command line replaces."""
    from forebay.simulate.storage.outcome import document
    from forebay.simulate.storage.rules import OPTIMAL
    from forebay.simulate.storage.scenario import read_storage_scenario

    if decisions is not None and not decisions.absolute().parent.is_dir():
        raise BadInput("--decisions", f"there is no folder {decisions.absolute().parent}")
    if decisions is not None and decisions.is_dir():
        raise BadInput("--decisions", f"{decisions} is a folder")
    scenario = read_storage_scenario(file, changes, seed=seed)
    names = policy_list("storage", scenario.policy or DEFAULT_POLICY, also=(OPTIMAL,))
    for option, path in (("--decisions", decisions), ("--plot", plot)):
        if path is not None and (len(names) > 1 or OPTIMAL in names):
            raise BadInput(option, "goes with one policy")
    runs = [_run(scenario, name, seed) for name in names if name != OPTIMAL]
    documents = [document(run) | {"decisions_file": None} for run in runs]
    if OPTIMAL in names:
        documents.append(_bound(scenario))
    if decisions is not None:
        documents[0]["decisions_file"] = str(_write_decisions(runs[0], decisions))
    if plot is not None:
        _plot(runs[0], plot)
    if json:
        print_json(documents[0] if len(documents) == 1 else {"runs": documents})
    else:
        _print(scenario, documents)


def _run(scenario: StorageScenario, policy: str, seed: int) -> Run:
    from forebay.decide.registry import find
    from forebay.simulate.storage.run import run_storage

    with progress(policy, len(scenario.requests)) as told:
        return run_storage(
            scenario.platform,
            scenario.requests,
            find("storage", policy),
            scenario.rules,
            feedback=scenario.feedback,
            seed=seed,
            progress=told,
        )


def _bound(scenario: StorageScenario) -> dict[str, Any]:
    from forebay.simulate.storage.bound import bound_of

    if scenario.rules.letter:
        raise BadInput("policy 'optimal'", "is a bound for what is really stored; it goes with as = 'correct'")
    rules, total = scenario.rules, int(scenario.requests.bytes.sum())
    bound = bound_of(scenario.platform, scenario.requests, rules)
    return {
        "mode": rules.mode,
        "platform": scenario.platform.name,
        "policy": "optimal",
        "bound": bound.how,
        "requests": len(scenario.requests),
        "sum_bytes": total,
        "allocated_bytes": bound.bytes,
        "allocated_share": bound.bytes / total,
    }


def _write_decisions(run: Run, path: Path) -> Path:
    import csv

    from forebay.simulate.storage.outcome import DECISION, decisions

    partial = path.with_name(path.name + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(DECISION)
        writer.writerows(decisions(run))
    return partial.replace(path)


def _plot(run: Run, out: Path) -> None:
    from forebay.show.figures.storage_run import draw_storage_run

    draw_storage_run(run, out)
    typer.echo(f"drawn: {out}", err=True)


_COLUMNS = {
    "allocated_share": "bytes served",
    "allocated": "served",
    "refused": "refused",
    "failed": "failed",
    "delayed": "delayed",
    "parts": "parts",
    "max_concurrent": "most at once",
    "disk_use": "fullest disk",
    "disk_crowd": "most on a disk",
    "mean_slowdown": "mean slowdown",
}


def _print(scenario: StorageScenario, documents: list[dict[str, Any]]) -> None:

    total = format_size(float(scenario.requests.bytes.sum()))
    typer.echo(f"{scenario.requests.origin}, {total}, on {scenario.platform.name}; rules: {scenario.rules.mode}")
    best = sorted(documents, key=lambda d: -d["allocated_share"])
    keys = [key for key in _COLUMNS if any(key in _flat(d) for d in documents)]
    rows = [[_flat(d)["policy"], *(_flat(d).get(key, "-") for key in keys)] for d in best]
    print_table("", ("policy", *(_COLUMNS[key] for key in keys)), rows)
    if len(documents) == 1 and "disks" in documents[0]:
        _print_one(documents[0])


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """One line of the table."""
    flat = document | (document.get("jobs") or {})
    flat["allocated_share"] = f"{100 * document['allocated_share']:.2f}%"
    if "disks" in document:
        flat["disk_use"] = f"{100 * max(d['max_use'] for d in document['disks']):.1f}%"
        flat["disk_crowd"] = max(d["max_allocations"] for d in document["disks"])
    return flat


def _print_one(document: dict[str, Any]) -> None:

    if document["reasons"]:
        rows = [(r["reason"], r["requests"], format_size(r["bytes"])) for r in document["reasons"]]
        print_table("Not served", ("reason", "requests", "volume"), rows)
    shown = document["disks"][:_MOST_DISKS]
    print_table(
        "Disks" if len(shown) == len(document["disks"]) else f"Disks, the first {_MOST_DISKS}",
        ("node", "disk", "capacity", "max use", "mean use", "max allocations", "mean"),
        [
            (
                d["node"],
                d["disk"],
                format_size(d["capacity"]),
                f"{100 * d['max_use']:.1f}%",
                f"{100 * d['mean_use']:.2f}%",
                d["max_allocations"],
                d["mean_allocations"],
            )
            for d in shown
        ],
    )
    if document["decisions_file"]:
        typer.echo(f"decisions: {document['decisions_file']}")


_MOST_DISKS = 40
