"""`forebay forward train`: trains the detector of access patterns."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from forebay.model.units import plural
from forebay.show.options import Json, Seed, Workers, check_file
from forebay.show.output import print_json, print_table, progress, whole_file

commands = typer.Typer()
_FEWEST = 30  # scenarios, so that each pattern occurs several times among those for tests


@commands.command(epilog="Example: forebay forward train --scenarios 300 --out pattern.json")
def train(
    out: Annotated[Path, typer.Option(help="JSON file for the weights.")] = Path("pattern.json"),
    scenarios: Annotated[
        int, typer.Option(help="Simulated runs for training; a third as many more are for tests.", min=_FEWEST)
    ] = 900,
    seed: Seed = 0,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Train the detector of access patterns on simulated runs.

    Trains a 5-5-3 network and a tree of depth 5. The default is the one that does better on sizes that were not in
    training; the file also records how both were trained and tested. Only training needs scikit-learn.
    """
    import numpy as np

    from forebay.profile.detector_training import fit_tree
    from forebay.show.workers import hire_workers
    from forebay.simulate.requests.training_data import document

    check_file("--out", out, b"{")
    fit_tree(np.zeros((2, 1)), np.arange(2), 0)  # fails now, not after all runs, if scikit-learn is missing
    total = scenarios + scenarios // 3
    with hire_workers(workers) as crew, progress(plural(total, "run"), total) as report:
        trained = document(scenarios, seed=seed, workers=crew, progress=report)
    with whole_file(out) as file:  # a council may be about to read it
        file.write(dumps(trained) + "\n")
    if json:
        print_json({"file": str(out), **{key: trained[key] for key in ("default", "recipe", "results")}})
        return
    classes, by_classifier = trained["classes"], trained["results"]
    for classifier, results in by_classifier.items():
        rows = [
            (name, detected, *counts)
            for name, result in results.items()
            for detected, counts in zip(classes, result["confusion"], strict=True)
        ]
        title = f"{classifier}: rows are detected patterns, columns are true patterns"
        print_table(title, ("periods", "detected", *classes), rows)
        typer.echo()
    names = list(next(iter(by_classifier.values())))
    accuracies = [
        (classifier, *(f"{100 * results[name]['accuracy']:.2f} %" for name in names))
        for classifier, results in by_classifier.items()
    ]
    print_table("Accuracy", ("classifier", *names), accuracies)
    typer.echo(f"\nwritten: {out}; default: the {trained['default']}, which does better on sizes not in training")
