"""`forebay forward train`."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers

commands = typer.Typer()
_FEWEST = 30  # scenarios, a third of which are tested on: each pattern must be there some times


@commands.command(epilog="Example: forebay forward train --scenarios 300 --out pattern.json")
def train(
    out: Annotated[Path, typer.Option(help="Where the weights go, as JSON.")] = Path("pattern.json"),
    scenarios: Annotated[
        int, typer.Option(help="Simulated runs to learn from; a third as many of other sizes to test on.", min=_FEWEST)
    ] = 900,
    seed: Seed = 0,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Train the recognition of access patterns on simulated runs.

    Trains a 5-5-3 network and a tree of depth 5. The better of both on sizes that were not in training becomes the
    default; how they were trained and how well they do is in the file too. Needs scikit-learn, which using the weights
    does not.
    """
    import numpy as np

    from forebay.profile.detector_training import fit_tree
    from forebay.show.output import print_json, print_table, progress
    from forebay.show.workers import hired
    from forebay.simulate.requests.training import document

    if out.is_dir() or not out.absolute().parent.is_dir():
        raise BadInput("--out", f"{out} is a folder" if out.is_dir() else f"there is no folder {out.parent}")
    fit_tree(np.zeros((2, 1)), np.arange(2), 0)  # says now, not after all runs, if scikit-learn is missing
    total = scenarios + scenarios // 3
    with hired(workers) as crew, progress(plural(total, "run"), total) as told:
        trained = document(scenarios, seed=seed, workers=crew, progress=told)
    _write(trained, out)
    if json:
        print_json({"file": str(out), **{key: trained[key] for key in ("default", "recipe", "results")}})
        return
    for by, results in trained["results"].items():
        print_table(f"{by}: rows are what was detected, columns what it was", *_confusions(trained["classes"], results))
        typer.echo()
    print_table("Periods recognised", *_accuracies(trained["results"]))
    typer.echo(f"\nwritten: {out}; used: the {trained['default']}, which does better on sizes not in training")


def _write(trained: dict[str, Any], out: Path) -> None:
    """All or nothing: a council may be about to read it."""
    partial = out.with_name(out.name + ".partial")
    partial.write_text(codec.dumps(trained) + "\n", encoding="utf-8")
    partial.replace(out)


def _confusions(classes: list[str], results: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """One line for each set and detected class."""
    heads = ["periods", "detected", *classes]
    return heads, [
        [name, detected, *counts]
        for name, result in results.items()
        for detected, counts in zip(classes, result["confusion"], strict=True)
    ]


def _accuracies(results: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    names = list(next(iter(results.values())))
    return ["classifier", *names], [
        [by, *(f"{100 * own[name]['accuracy']:.2f} %" for name in names)] for by, own in results.items()
    ]
