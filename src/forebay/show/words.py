"""What came out of a study, in words, computed from its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forebay.simulate.studies.results import CLASS, TRUE, Results

Row = dict[str, Any]
GREEDY = "greedy-non-clairvoyant"


def conclusions(results: Results) -> list[str]:
    """Sentences, each true of these results; a comparison whose policies were not run is left out."""
    rows: list[Row] = results.rows()
    place = GREEDY if GREEDY in results.placers() else results.placers()[0]
    true = [r for r in rows if r["curves"] == TRUE]
    said = [_data(results)]
    own = [r for r in true if r["place"] == place]
    said += _best(own, place)
    said += _crossing(own)
    said += _placement(true)
    said += _forebay(own)
    said += _robust(rows, place)
    return said


def _data(results: Results) -> str:
    sets = len(set(zip(results.runs["load"].tolist(), results.runs["set"].tolist(), strict=True)))
    unfinished = int((results.runs["unfinished"] > 0).sum())
    text = f"{sets} sets of applications drawn from {results.origin}, {results.runs.size:,} simulations."
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
    from_load = None
    for fast, light in reversed(pairs):
        if light["mean_io_slowdown"] >= fast["mean_io_slowdown"]:
            break
        from_load = _middle(light)
    if from_load is None:
        return ["best-bandwidth has less mean I/O slowdown than nsys at the highest load studied."]
    if from_load == _middle(pairs[0][1]):
        return ["nsys has less mean I/O slowdown than best-bandwidth at every load studied."]
    return [f"best-bandwidth has less mean I/O slowdown than nsys below load {from_load}, and more from there on."]


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
    over_random = gain(GREEDY, "random")
    if over_random is not None:
        said.append(
            f"{GREEDY} lowers the mean I/O slowdown by {over_random:.1f} % on average against random placement."
        )
    clairvoyant = gain("greedy-clairvoyant", GREEDY)
    if clairvoyant is not None:
        word = "lowers" if clairvoyant >= 0 else "raises"
        said.append(
            f"Knowing the applications' I/O (greedy-clairvoyant) {word} it by another {abs(clairvoyant):.1f} %."
        )
    return said


def _forebay(rows: Sequence[Row]) -> list[str]:
    """forebay against the better of the two that the paper recommends, bin by bin."""
    ours = {r["load_low"]: r for r in rows if r["allocate"] == "forebay"}
    peers = [[r for r in rows if r["load_low"] == low and r["allocate"] in ("tcpu", "best-bandwidth")] for low in ours]
    if not ours or not all(len(p) == 2 for p in peers):
        return []
    gains: dict[str, list[float]] = {}
    for (low, own), peer in zip(ours.items(), peers, strict=True):
        for metric in ("mean_io_slowdown", "machine_idle"):
            gains.setdefault(metric, []).append(100 * (1 - own[metric] / min(p[metric] for p in peer)))
            assert low == own["load_low"]
    return [
        "Against the better of tcpu and best-bandwidth in each bin, forebay lowers the mean I/O slowdown by "
        f"{_span(gains['mean_io_slowdown'])} and the machine idle time by {_span(gains['machine_idle'])}."
    ]


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
