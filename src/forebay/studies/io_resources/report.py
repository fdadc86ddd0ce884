"""The report: means by load as tables, the paper's figures, and the findings."""

from __future__ import annotations

import math
from collections.abc import Mapping

from forebay.model.curve import Curve
from forebay.show.report import Report, Section, Table
from forebay.show.rows import records
from forebay.studies.io_resources.figures import figures_of
from forebay.studies.io_resources.findings import conclusions
from forebay.studies.io_resources.results import METRICS, Results

_HEADS = ("mean I/O slowdown", "max", "by allocation", "by congestion", "I/O-spread", "machine idle")


def make_report(results: Results, curves: Mapping[str, Curve], about: str) -> Report:
    """`curves` are those that the applications were drawn from, `about` says what was run."""
    rows, said = results.rows(), conclusions(results)
    document = {"curves": results.origin, "settings": dict(results.settings), "conclusions": said, "rows": rows}
    return Report(
        about=about,
        findings=[Section("What came out", said)],
        records={"rows": rows, "sets": records(results.runs)},
        document=document,
        figures=figures_of(results, curves),
        summary=[
            _by_load(results, metric, title)
            for metric, title in (("mean_io_slowdown", "Mean I/O slowdown"), ("machine_idle", "Machine idle time"))
        ],
        tables=[_means(results)],
    )


def _by_load(results: Results, metric: str, title: str) -> Table:
    """A line for each combination of policies, a column for each bin."""
    lines: dict[tuple[str, ...], dict[float, float]] = {}
    for row in results.rows():
        lines.setdefault((row["allocate"], row["place"], row["curves"]), {})[row["load_low"]] = row[metric]
    heads = ["allocate", "place", "sees", *(f"{b.middle:g}" for b in results.bins)]
    rows = [[*key, *(values.get(b.low, math.nan) for b in results.bins)] for key, values in lines.items()]
    return Table(f"{title} by load, {results.origin}", heads, rows)


def _means(results: Results) -> Table:
    rows = [
        (
            *(r["allocate"], r["place"], f"{r['load_low']:g} – {r['load_high']:g}", r["curves"], r["sets"]),
            *(f"{r[metric]:.3f}" for metric in METRICS),
        )
        for r in results.rows()
    ]
    heads = ("allocate", "place", "load", "sees", "sets", *_HEADS)
    return Table("Means for each bin of I/O-load(\N{GREEK SMALL LETTER PI}_sys)", heads, rows)
