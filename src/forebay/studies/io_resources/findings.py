"""What came out of a study, in words, computed from its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forebay.model.units import plural
from forebay.studies.io_resources.results import CLASS, TRUE, Results

Row = dict[str, Any]
GREEDY = "greedy-non-clairvoyant"


def conclusions(results: Results) -> list[str]:
    """Sentences, each true of these results; a comparison whose policies were not run is left out."""
    rows: list[Row] = results.rows()
    place = GREEDY if GREEDY in results.placers() else results.placers()[0]
    true = [r for r in rows if r["curves"] == TRUE]
    said = [_data(results)]
    placed = [r for r in true if r["place"] == place]
    said += _best(placed, place)
    said += _crossing(placed)
    said += _placement(true)
    said += _forebay(placed)
    said += _robust(rows, place)
    return said


def _data(results: Results) -> str:
    sets = len(set(zip(results.runs["load"].tolist(), results.runs["set"].tolist(), strict=True)))
    unfinished = int((results.runs["unfinished"] > 0).sum())
    simulations = plural(results.runs.size, "simulation")
    text = f"{plural(sets, 'set')} of applications drawn from {results.origin}, {simulations}."
    if unfinished:
        text += f" In {unfinished} of them some application completed no phase and is left out of the means."
    return text


def _best(rows: Sequence[Row], place: str) -> list[str]:
    """Who is best at each end of the loads."""
    bins = sorted({r["load_low"] for r in rows})
    if len({r["allocate"] for r in rows}) < 2:
        return []
    said = []
    for low in dict.fromkeys((bins[0], bins[-1])):
        here = [r for r in rows if r["load_low"] == low]
        slow = min(here, key=lambda r: r["mean_io_slowdown"])
        idle = min(here, key=lambda r: r["machine_idle"])
        also = "also" if idle is slow else idle["allocate"]
        said.append(
            f"At load {_middle(slow)} with {place}, {slow['allocate']} has the least mean I/O slowdown "
            f"({slow['mean_io_slowdown']:.2f}) and {also} the least machine idle time "
            f"({100 * idle['machine_idle']:.1f} %)."
        )
    return said


def _crossing(rows: Sequence[Row]) -> list[str]:
    """From which load on the allocator with the least stress beats the one with the best bandwidth."""
    pairs = _paired(rows, "best-bandwidth", "nsys")
    if not pairs:
        return []
    light_wins = [light["mean_io_slowdown"] < fast["mean_io_slowdown"] for fast, light in pairs]
    if not any(light_wins):
        return ["nsys has less mean I/O slowdown than best-bandwidth at no load studied."]
    if all(light_wins):
        return ["nsys has less mean I/O slowdown than best-bandwidth at every load studied."]
    first = light_wins.index(True)
    if all(light_wins[first:]):
        return [f"nsys has less mean I/O slowdown than best-bandwidth from load {_middle(pairs[first][1])} on."]
    won = [_middle(light) for (_, light), wins in zip(pairs, light_wins, strict=True) if wins]
    return [f"nsys has less mean I/O slowdown than best-bandwidth at load {', '.join(won)}."]


def _placement(rows: Sequence[Row]) -> list[str]:
    def gain(better: str, worse: str) -> float | None:
        ratios = [
            b["mean_io_slowdown"] / w["mean_io_slowdown"]
            for b in rows
            for w in rows
            if b["place"] == better
            and w["place"] == worse
            and all(b[k] == w[k] for k in ("allocate", "load_low"))
            and b["allocate"] != "mckp"  # it places by itself
        ]
        return 100 * (1 - sum(ratios) / len(ratios)) if ratios else None

    said = []
    for better, worse in ((GREEDY, "random"), ("greedy-clairvoyant", GREEDY)):
        percent = gain(better, worse)
        if percent is not None:
            said.append(f"Against {worse} placement, {better} {_lowers('the mean I/O slowdown', [percent])}.")
    return said


def _forebay(rows: Sequence[Row]) -> list[str]:
    """forebay against the better of the two that the paper recommends, bin by bin."""
    ours = {r["load_low"]: r for r in rows if r["allocate"] == "forebay"}
    peers = [[r for r in rows if r["load_low"] == low and r["allocate"] in ("tcpu", "best-bandwidth")] for low in ours]
    if not ours or not all(len(p) == 2 for p in peers):
        return []
    gains: dict[str, list[float]] = {}
    for ours_here, peer in zip(ours.values(), peers, strict=True):
        for metric in ("mean_io_slowdown", "machine_idle"):
            best = min(p[metric] for p in peer)
            if best > 0:  # neither nan nor nothing to gain
                gains.setdefault(metric, []).append(100 * (1 - ours_here[metric] / best))
    if len(gains) < 2:
        return []
    slowdown, idle = (
        _lowers("the mean I/O slowdown", gains["mean_io_slowdown"]),
        _lowers("the machine idle time", gains["machine_idle"]),
    )
    return [f"Against the better of tcpu and best-bandwidth in each bin, forebay {slowdown} and {idle}."]


def _lowers(what: str, gains: Sequence[float]) -> str:
    """By how many percent it is lowered, in words that are true of losses too.

    >>> _lowers("it", [1.0, 2.0]), _lowers("it", [-16.1]), _lowers("it", [-1.0, 2.0])
    ('lowers it by 1.0 to 2.0 %', 'raises it by 16.1 %', 'changes it by -2.0 to +1.0 %')
    """
    if min(gains) >= 0:
        return f"lowers {what} by {_span(gains)}"
    if max(gains) <= 0:
        return f"raises {what} by {_span([-gain for gain in gains])}"
    return f"changes {what} by {_span([-gain for gain in gains], signed=True)}"


def _robust(rows: Sequence[Row], place: str) -> list[str]:
    seen: dict[tuple[str, str], dict[float, dict[str, Row]]] = {}
    for r in rows:
        seen.setdefault((r["allocate"], r["place"]), {}).setdefault(r["load_low"], {})[r["curves"]] = r
    said = []
    for (allocate, own_place), bins in seen.items():
        both = [b for b in bins.values() if TRUE in b and CLASS in b]
        if own_place == place and both:
            losses = [100 * (b[CLASS]["mean_io_slowdown"] / b[TRUE]["mean_io_slowdown"] - 1) for b in both]
            said.append(
                f"Seeing class curves instead of true ones changes the mean I/O slowdown of {allocate} "
                f"by {_span(losses, signed=True)}."
            )
    return said


def _paired(rows: Sequence[Row], one: str, other: str) -> list[tuple[Row, Row]]:
    """The rows of two allocators at the same loads, by load."""
    of: Callable[[str], dict[float, Row]] = lambda name: {r["load_low"]: r for r in rows if r["allocate"] == name}  # noqa: E731
    first, second = of(one), of(other)
    return [(first[low], second[low]) for low in sorted(first.keys() & second.keys())]


def _middle(row: Row) -> str:
    return f"{(row['load_low'] + row['load_high']) / 2:.3g}"


def _span(values: Sequence[float], *, signed: bool = False) -> str:
    sign = "+" if signed else ""
    low, high = min(values), max(values)
    return f"{low:{sign}.1f} to {high:{sign}.1f} %" if len(values) > 1 else f"{low:{sign}.1f} %"
