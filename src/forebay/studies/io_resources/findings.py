"""The findings, computed from the results. A comparison that lacks policies is left out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from forebay.model.curve import Curve
from forebay.model.units import plural
from forebay.show.report import Report, Section, Table
from forebay.show.rows import Record, distinct_values, records
from forebay.studies.io_resources.figures import figures_of
from forebay.studies.io_resources.results import CLASS, GREEDY, METRICS, TRUE, Results


def conclusions(results: Results) -> list[str]:
    """Return the findings. They compare allocators under the paper's placement, or else under the first one."""
    rows = results.rows()
    place = GREEDY if GREEDY in results.placers() else results.placers()[0]
    true = [r for r in rows if r["curves"] == TRUE]
    placed = [r for r in true if r["place"] == place]
    sets = plural(len(distinct_values(results.runs, "load", "set")), "set")
    unfinished = int((results.runs["unfinished"] > 0).sum())
    first = f"{sets} of applications drawn from {results.origin}, {plural(results.runs.size, 'simulation')}."
    if unfinished:
        first += f" In {unfinished} of them, some applications completed no phase; the means leave these out."
    parts = (
        _name_best(placed, place),
        _find_crossing(placed),
        _placement(true),
        _forebay(placed),
        _compare_sensitivity(rows, place),
    )
    return [first, *(sentence for part in parts for sentence in part)]


def _name_best(rows: Sequence[Record], place: str) -> Iterator[str]:
    """Name the best allocators at the lowest and at the highest load."""
    bins = sorted({r["load_low"] for r in rows})
    if len({r["allocate"] for r in rows}) < 2:
        return
    for low in dict.fromkeys((bins[0], bins[-1])):
        here = [r for r in rows if r["load_low"] == low]
        slow, idle = (min(here, key=itemgetter(by)) for by in ("mean_io_slowdown", "machine_idle"))
        also = "also" if idle is slow else idle["allocate"]
        yield (
            f"At load {_middle(slow)} with {place}, {slow['allocate']} has the lowest mean I/O slowdown "
            f"({slow['mean_io_slowdown']:.2f}) and {also} the lowest machine idle time "
            f"({100 * idle['machine_idle']:.1f} %)."
        )


def _find_crossing(rows: Sequence[Record]) -> Iterator[str]:
    """Name the loads at which nsys, which stresses targets least, beats best-bandwidth."""
    fast, light = ({r["load_low"]: r for r in rows if r["allocate"] == a} for a in ("best-bandwidth", "nsys"))
    both = sorted(fast.keys() & light.keys())
    wins = [low for low in both if light[low]["mean_io_slowdown"] < fast[low]["mean_io_slowdown"]]
    if not both:
        return
    if wins == both:
        where = "at every load studied"
    elif wins and wins == both[-len(wins) :]:
        where = f"from load {_middle(light[wins[0]])} on"
    else:
        where = f"at load {', '.join(_middle(light[low]) for low in wins)}" if wins else "at no load studied"
    yield f"nsys has a lower mean I/O slowdown than best-bandwidth {where}."


def _placement(rows: Sequence[Record]) -> Iterator[str]:
    # mckp chooses its own placement
    keys = ("place", "allocate", "load_low")
    slowdowns = {tuple(r[k] for k in keys): r["mean_io_slowdown"] for r in rows if r["allocate"] != "mckp"}
    for better, worse in ((GREEDY, "random"), ("greedy-clairvoyant", GREEDY)):
        ratios = [
            slowdown / slowdowns[worse, *same]
            for (place, *same), slowdown in slowdowns.items()
            if place == better and (worse, *same) in slowdowns
        ]
        if ratios:
            percent = 100 * (1 - sum(ratios) / len(ratios))
            yield f"Compared with {worse} placement, {better} {_describe_change('the mean I/O slowdown', [percent])}."


def _forebay(rows: Sequence[Record]) -> Iterator[str]:
    """Compare forebay with the better of the two policies that the paper recommends, bin by bin."""
    ours = {r["load_low"]: r for r in rows if r["allocate"] == "forebay"}
    peers = [[r for r in rows if r["load_low"] == low and r["allocate"] in ("tcpu", "best-bandwidth")] for low in ours]
    if not ours or not all(len(pair) == 2 for pair in peers):
        return
    parts = []
    for metric, what in (("mean_io_slowdown", "the mean I/O slowdown"), ("machine_idle", "the machine idle time")):
        bests = [min(peer[metric] for peer in pair) for pair in peers]
        pairs = zip(ours.values(), bests, strict=True)
        gains = [100 * (1 - row[metric] / best) for row, best in pairs if best > 0]  # skips nan and 0
        if not gains:
            return
        parts.append(_describe_change(what, gains))
    yield f"Compared with the better of tcpu and best-bandwidth in each bin, forebay {' and '.join(parts)}."


def _compare_sensitivity(rows: Sequence[Record], place: str) -> Iterator[str]:
    true, seen = (
        {(r["allocate"], r["load_low"]): r["mean_io_slowdown"] for r in rows if (r["curves"], r["place"]) == (c, place)}
        for c in (TRUE, CLASS)
    )
    for allocate in dict.fromkeys(r["allocate"] for r in rows):
        both = [key for key in seen if key in true and key[0] == allocate]
        if both:
            losses = [100 * (seen[key] / true[key] - 1) for key in both]
            yield (
                f"With class curves instead of true ones, the mean I/O slowdown of {allocate} changes "
                f"by {_span(losses, signed=True)}."
            )


def _describe_change(what: str, gains: Sequence[float]) -> str:
    """Say by how many percent a policy lowers or raises something.

    >>> _describe_change("it", [1.0, 2.0]), _describe_change("it", [-16.1]), _describe_change("it", [-1.0, 2.0])
    ('lowers it by 1.0 to 2.0 %', 'raises it by 16.1 %', 'changes it by -2.0 to +1.0 %')
    """
    losses = [-gain for gain in gains]
    if min(gains) >= 0:
        return f"lowers {what} by {_span(gains)}"
    return f"raises {what} by {_span(losses)}" if max(gains) <= 0 else f"changes {what} by {_span(losses, signed=True)}"


def _middle(row: Record) -> str:
    return f"{(row['load_low'] + row['load_high']) / 2:.3g}"


def _span(values: Sequence[float], *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    low, high = min(values), max(values)
    return f"{low:{sign}.1f} to {high:{sign}.1f} %" if len(values) > 1 else f"{low:{sign}.1f} %"


_HEADS = ("mean I/O slowdown", "max", "by allocation", "by congestion", "I/O-spread", "machine idle")


def make_report(results: Results, curves: Mapping[str, Curve], about: str) -> Report:
    """Make the report. Applications were drawn from `curves`; `about` describes the runs."""
    rows, sentences = results.rows(), conclusions(results)
    means = [
        (
            *(r["allocate"], r["place"], f"{r['load_low']:g} – {r['load_high']:g}", r["curves"], r["sets"]),
            *(f"{r[metric]:.3f}" for metric in METRICS),
        )
        for r in rows
    ]
    title = "Means for each bin of I/O-load(\N{GREEK SMALL LETTER PI}_sys)"
    return Report(
        about=about,
        findings=[Section("Findings", sentences)],
        records={"rows": rows, "sets": records(results.runs)},
        document={"curves": results.origin, "settings": dict(results.settings), "conclusions": sentences, "rows": rows},
        figures=figures_of(results, curves),
        summary=[
            _by_load(results, "mean_io_slowdown", "Mean I/O slowdown"),
            _by_load(results, "machine_idle", "Machine idle time"),
        ],
        tables=[Table(title, ("allocate", "place", "load", "sees", "sets", *_HEADS), means)],
    )


def _by_load(results: Results, metric: str, title: str) -> Table:
    """Tabulate a metric: a line for each combination of policies, a column for each bin.

    A column says which curves policies see, the true ones or those of the class, unless all see the same.
    """
    lines: dict[tuple[str, ...], dict[float, float]] = {}
    for row in results.rows():
        lines.setdefault((row["allocate"], row["place"], row["curves"]), {})[row["load_low"]] = row[metric]
    keys = ["allocate", "place", "curves"] if len({curves for *_, curves in lines}) > 1 else ["allocate", "place"]
    heads = [*keys, *(f"{b.middle:g}" for b in results.bins)]
    rows = [[*key[: len(keys)], *(values.get(b.low, math.nan) for b in results.bins)] for key, values in lines.items()]
    return Table(f"{title} by load, {results.origin}", heads, rows)
