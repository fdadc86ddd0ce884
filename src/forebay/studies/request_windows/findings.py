"""The findings, computed from the results; what was not run is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from forebay.model.layout import KIB, MIB
from forebay.model.units import format_size, plural
from forebay.show.phrases import format_binary, join_names
from forebay.show.report import Details, Report, Section
from forebay.show.rows import Floats, Rows, distinct, records, select
from forebay.simulate.requests.workload import Experiment
from forebay.studies.request_windows import tables
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion
from forebay.studies.request_windows.figures import figures_of
from forebay.studies.request_windows.results import (
    BURSTS,
    FIFO,
    FOREBAY,
    NOTABLE,
    PAPERS,
    SEEN,
    SHORT,
    TENTH,
    THINKING,
    TWINS,
    UNSEEN,
    RequestWindowsResults,
    Way,
    describe_experiment,
    last_values,
    milliseconds,
    over_steps,
    percent,
    tuner_label,
)
from forebay.studies.request_windows.tables import (
    detected_records,
    detectors,
    format_accuracy,
    instance_records,
    learned_records,
    precision_records,
    scheduler_records,
    situation_records,
    tuner_records,
    window_records,
)

FITTED = (
    "The data servers are a model whose numbers are fitted to the paper's figures: that windows do here what they do "
    "there is no validation of the paper. What tuners and classifiers make of it is what this study finds."
)
_SETS = {SEEN: "of the study's periods", UNSEEN: "of those with other sizes of requests and files"}
_DEMANDS = {BURSTS: "by bursts", THINKING: "by processes that think"}
_REWARDS = ("bandwidth", "demand")
_WORSE = 1.05  # times what is lost without hearing of others: from then on it was bad to hear of them
_ALIKE = 0.1  # precision of what is called learned alike
_HALF = 0.5  # of what epsilon 0.1 loses: what forebay may lose at most


def conclusions(results: RequestWindowsResults) -> list[str]:
    parts = (_windows, _kinds, _single, _detection, _shares, _turns, _regret, _similar, _demand, _schedulers)
    return [sentence for part in parts for sentence in part(results)]


def _windows(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    best = gains.max(axis=1)
    high, low = (divmod(int(at), gains.shape[1]) for at in (gains.argmax(), gains.argmin()))
    yield (
        f"Over fifo, the best of {gains.shape[1]} windows wins more than {_limit()} in {(best > NOTABLE).sum()} of "
        f"{best.size} situations and loses more than that in {(best < -NOTABLE).sum()}. The best that a window does is "
        f"{percent(gains.max())} ({_at(results, *high)}), the worst {percent(gains.min())} ({_at(results, *low)})."
    )


def _kinds(results: RequestWindowsResults) -> Iterator[str]:
    best = results.gains().max(axis=1)
    medians: dict[str, float] = {}
    for pattern in results.values_of("pattern"):
        for operation in results.values_of("operation"):
            chosen = results.find_experiments(pattern=pattern, operation=operation)
            if chosen.size:
                medians[f"{SHORT[pattern]} {operation}s"] = float(np.median(best[chosen]))
    order = sorted(medians, key=lambda name: -medians[name])
    yield f"The best window's gain, median: {', '.join(f'{name} {percent(medians[name], 1)}' for name in order)}."
    single = results.find_experiments(nodes=1)
    if single.size:
        yield (
            f"Through one I/O node, where there is nobody to keep out of the way of, even the best window loses more "
            f"than {_limit()} in {(best[single] < -NOTABLE).sum()} of {single.size} situations."
        )


def _single(results: RequestWindowsResults) -> Iterator[str]:
    bandwidths = results.bandwidths()[:, 1:]
    if bandwidths.shape[1] > 1:
        shares = (bandwidths / bandwidths.max(axis=1, keepdims=True)).mean(axis=0)
        best = int(shares.argmax())
        used = len(np.unique(bandwidths.argmax(axis=1)))
        yield (
            f"No window fits all: {used} of {bandwidths.shape[1]} are the best somewhere, and the one that does best "
            f"everywhere ({milliseconds(results.windows[best])} ms) gives {100 * shares[best]:.1f} % of what the best "
            f"of each situation gives, on average; the worst ({milliseconds(results.windows[int(shares.argmin())])} "
            f"ms) gives {100 * shares.min():.1f} %."
        )


def _detection(results: RequestWindowsResults) -> Iterator[str]:
    right = {key: format_accuracy(confusion(results.detected, *key)) for key in detectors(results)}
    parts = []
    for by in CLASSIFIERS:
        shares = [f"{right[of, by]} {periods}" for of, periods in _SETS.items() if (of, by) in right]
        if shares:
            parts.append(f"the {by} recognises {join_names(shares)}")
    if parts:
        yield f"Of access patterns, {' and '.join(parts)} (paper: 99.82 %, sizes seen in training)."


def _shares(results: RequestWindowsResults) -> Iterator[str]:
    rows = [r for r in instance_records(results) if (r["tuner"], r["similar"]) == (PAPERS, "no")]
    parts = [
        f"{r['instance']} from {r['first_share']:.2f} to {r['last_share']:.2f} (paper: {r['paper_first_share']:.2f} to "
        f"{r['paper_last_share']:.2f}), precision {100 * r['last_precision']:.0f} %"
        for r in rows
    ]
    if parts:
        yield (
            f"With epsilon 0.15, from the first to the last of {results.steps} steps, the share of the best window's "
            f"performance rises: {'; '.join(parts)}."
        )


def _turns(results: RequestWindowsResults) -> Iterator[str]:
    parts, apart = [], 0.0
    for letter, number in results.instances().items():
        both = select(results.learned_together(TENTH), experiment=number)
        single = select(results.learned_alone(Way(TENTH)), experiment=number)
        if both.size and single.size:
            ends = [over_steps(rows, "precision")[1][-5:].mean() for rows in (both, single)]
            apart = max(apart, abs(ends[0] - ends[1]))
            parts.append(f"{letter} {100 * ends[0]:.0f} % (alone {100 * ends[1]:.0f} %)")
    if parts:
        most = int(over_steps(results.learned_together(TENTH), "precision")[0].max())
        yield (
            f"Instances that take turns {'learn' if apart <= _ALIKE else 'do not learn'} as they do alone, over as "
            f"many steps of their own: with epsilon 0.1, "
            f"precision in the end of {most} steps together, {most // len(parts)} each, and of {results.steps} "
            f"alone: {', '.join(parts)}."
        )


def _regret(results: RequestWindowsResults) -> Iterator[str]:
    rows = {r["tuner"]: r for r in tuner_records(results) if r["similar"] == "no"}
    if FOREBAY not in rows or TENTH not in rows:
        return
    ours, tenth = rows[FOREBAY], rows[TENTH]
    ratio = ours["of_epsilon_0.1"]
    yield (
        f"After {ours['steps']} steps, on average over {len(results.experiments)} situations, forebay has lost "
        f"{ours['regret']:.2f} steps of the best window and epsilon 0.1 {tenth['regret']:.2f}: forebay's regret is "
        f"{ratio:.2f} of it, {'at most' if ratio <= _HALF else 'and so more than'} half (at most half in "
        f"{100 * ours['situations_at_most_half']:.0f} % of situations). In the end it has "
        f"{100 * ours['share']:.2f} % of the best window's performance, epsilon 0.1 {100 * tenth['share']:.2f} %."
    )
    others = sorted((r["regret"], name) for name, r in rows.items() if name not in (FOREBAY, TENTH))
    if others:
        yield f"The others lose: {', '.join(f'{tuner_label(name)} {lost:.2f}' for lost, name in others)}."


def _similar(results: RequestWindowsResults) -> Iterator[str]:
    heard, plain = results.learned_alone(Way(FOREBAY, True)), results.learned_alone(Way(FOREBAY))
    if heard.size and plain.size:
        early = [float(over_steps(rows, "regret")[1][0]) for rows in (heard, plain)]
        late = [float(last_values(rows, "regret").mean()) for rows in (heard, plain)]
        first = int(over_steps(heard, "regret")[0][0])
        yield (
            f"Where it has met similar situations before, forebay loses {early[0]:.2f} instead of {early[1]:.2f} steps "
            f"in the first {first}, and {late[0]:.2f} instead of {late[1]:.2f} in all {results.steps}"
            + (": what it heard misleads it later on." if late[0] > _WORSE * late[1] else ".")
        )


def _demand(results: RequestWindowsResults) -> Iterator[str]:
    """For each tuner and each kind of changing demand."""
    for demand, cause in _DEMANDS.items():
        rows = select(results.demanded, demand=demand)
        for tuner in distinct(rows, "tuner"):
            ends = {
                letter: [_late(select(rows, tuner=tuner, experiment=number), reward) for reward in _REWARDS]
                for letter, number in results.instances().items()
            }
            known = {letter: shares for letter, shares in ends.items() if np.isfinite(shares).all()}
            parts = [f"{letter} {100 * shares[0]:.1f} and {100 * shares[1]:.1f} %" for letter, shares in known.items()]
            won = sum(shares[1] > shares[0] for shares in known.values())
            if parts:
                yield (
                    f"When demand changes {cause}, {tuner_label(tuner)} has in its last {results.steps // 2} steps, "
                    f"by bandwidth and by bandwidth over demand, of what the best windows give: {', '.join(parts)}; "
                    f"demand as part of the reward is the better in {won} of {len(parts)}."
                )


def _late(rows: Rows, reward: str) -> float:
    """Mean share in the second half of the steps."""
    share = over_steps(select(rows, reward=reward), "share")[1]
    return float(share[share.size // 2 :].mean()) if share.size else float("nan")


def _schedulers(results: RequestWindowsResults) -> Iterator[str]:
    over = {name: ratio - 1 for name, ratio in results.schedulers().items() if name not in (FIFO, TWINS)}
    alike = [name for name, gain in over.items() if np.abs(gain).max() <= NOTABLE]
    parts = [
        f"{name} {percent(float(gain.min()))} to {percent(float(gain.max()))} (wins in {(gain > NOTABLE).sum()}, loses "
        f"in {(gain < -NOTABLE).sum()})"
        for name, gain in over.items()
        if name not in alike
    ]
    if parts:
        yield f"Other schedulers over fifo, in {len(results.experiments)} situations: {'; '.join(parts)}."
    if alike:
        verb = "does" if len(alike) == 1 else "do"
        yield (
            f"{join_names(alike)} {verb} as fifo, within {_limit()}: one program with requests of one size leaves "
            f"{'it' if len(alike) == 1 else 'them'} little to choose from."
        )


def _limit() -> str:
    return f"{100 * NOTABLE:.0f} %"


def _at(results: RequestWindowsResults, experiment: int, window: int) -> str:
    return f"{describe_experiment(results.experiments[experiment])}; {milliseconds(results.windows[window])} ms"


PAPER_GAIN = 0.28  # the most that windows win for reads of shared files (section 2)
PAPER_HITS = 0.88  # of decisions, in hundreds of steps (section 8)
_EPSILON = 0.15
_GAIN, _SHARE, _HITS, _POINTS = 0.1, 0.03, 0.08, 1.0  # up to so much apart is called alike
_TIED = 0.01
_ROUND = 4 * 64 * KIB  # bytes of a file that are one stripe on each of four servers


def differences(results: RequestWindowsResults) -> list[str]:
    """Sentences, each with its reason; where ours and the paper's are alike, there is none."""
    parts = (_gains, _first, _last, _precision, _detection_differs)
    return [sentence for part in parts for sentence in part(results)]


def _gains(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    shared = np.concatenate(
        [results.find_experiments(pattern=f"shared-{order}", operation="read") for order in ("contiguous", "strided")]
    )
    if not shared.size or abs(gains[shared].max() - PAPER_GAIN) <= _GAIN:
        return
    best = int(shared[gains[shared].max(axis=1).argmax()])
    window = milliseconds(results.windows[int(gains[best].argmax())])
    where = f"{describe_experiment(results.experiments[best])}; {window} ms"
    why = (
        "There each process's part of the file begins on the same server, so that under fifo all processes go from "
        "server to server together and the others idle; windows break that up, whatever else they do."
        if gains[best].max() > PAPER_GAIN and _convoy(results.experiments[best])
        else "What a window can win is what the model charges for other nodes and for gaps, fitted to other figures."
    )
    yield (
        f"The best that a window does for reads of a shared file is {percent(gains[best].max())} ({where}); the "
        f"paper cites {percent(PAPER_GAIN)}. {why}"
    )


def _first(results: RequestWindowsResults) -> Iterator[str]:
    means = _random(results)
    off = [r for r in _papers(results) if abs(r["first_share"] - r["paper_first_share"]) > _SHARE]
    if off:
        parts = [
            f"{r['instance']} {r['first_share']:.2f} (paper: {r['paper_first_share']:.2f}; any window at random: "
            f"{means[r['instance']]:.2f})"
            for r in off
        ]
        yield (
            f"Share of the best in the first bin, epsilon 0.15: {', '.join(parts)}. The first steps take windows "
            "nearly at random, so that this is how much windows differ in the model."
        )


def _last(results: RequestWindowsResults) -> Iterator[str]:
    means = _random(results)
    for r in _papers(results):
        ours, paper, most = r["last_share"], r["paper_last_share"], 1 - _EPSILON * (1 - means[r["instance"]])
        if abs(ours - paper) <= _SHARE:
            continue
        why = (
            f"With every seventh decision left to chance, {most:.2f} is the most that can be had where windows differ "
            "as they do here."
            if ours < paper
            else "Windows that are taken by mistake cost less here."
        )
        where = f"Share of the best in the last bin, {r['instance']}, epsilon 0.15"
        yield f"{where}: {ours:.2f} (paper: {paper:.2f}). {why}"


def _precision(results: RequestWindowsResults) -> Iterator[str]:
    rows, means = instance_records(results), _means(results)
    for letter, number in results.instances().items():
        reached = [r["last_precision"] for r in rows if r["instance"] == letter and r["tuner"].startswith("epsilon-g")]
        if reached and PAPER_HITS - max(reached) > _HITS:
            shares = np.sort(means[number] / means[number].max())[::-1]
            near = int((shares > 1 - _TIED).sum()) - 1
            yield (
                f"In {letter} the best window is taken in {100 * max(reached):.0f} % of the last decisions by the best "
                f"epsilon, where the paper has about {100 * PAPER_HITS:.0f} %: the next best window gives "
                f"{100 * shares[1]:.1f} % of the best one's bandwidth, {near or 'none'} of the others more than "
                f"{100 * (1 - _TIED):.0f} %, so that it takes longer to tell them apart and matters less."
            )


def _detection_differs(results: RequestWindowsResults) -> Iterator[str]:
    for r in precision_records(results):
        if r["set"] == SEEN and r["of"] in ("read", "write") and r["paper_mean"] - r["mean"] > _POINTS:
            yield (
                f"The {r['classifier']} recognises {r['mean']:.1f} % of {r['of']} periods on average over experiments "
                f"(least {r['least']:.1f} %), where the paper has {r['paper_mean']:.1f} % (least "
                f"{r['paper_least']:.1f} %). It was trained on runs of many sizes and lengths of periods, some with "
                "two programs at a time, not on these experiments; the paper's classifier was trained on a "
                "part of what it was tested on."
            )


def _papers(results: RequestWindowsResults) -> list[dict[str, Any]]:
    return [r for r in instance_records(results) if (r["tuner"], r["similar"]) == (PAPERS, "no")]


def _random(results: RequestWindowsResults) -> dict[str, float]:
    """By instance, the mean of all windows as a share of the best."""
    means = _means(results)
    return {letter: float((means[n] / means[n].max()).mean()) for letter, n in results.instances().items()}


def _means(results: RequestWindowsResults) -> list[Floats]:
    return [np.array([sample.mean() for sample in row]) for row in results.samples()]


def _convoy(experiment: Experiment) -> bool:
    """Whether all processes' parts of a shared file begin on one server."""
    work = experiment.workload
    return work.pattern == "shared-contiguous" and (work.requests * work.request) % _ROUND == 0


_IN_DOCUMENT = ("situations", "windows", "schedulers", "tuners", "instances", "precision")


def make_report(results: RequestWindowsResults) -> Report:
    said, differ = conclusions(results), differences(results)
    files = {
        "situations": situation_records(results),
        "windows": window_records(results),
        "schedulers": scheduler_records(results),
        "learned": learned_records(results),
        "tuners": tuner_records(results),
        "instances": instance_records(results),
        "detected": detected_records(results),
        "precision": precision_records(results),
        "demanded": records(results.demanded),
    }
    gains, tuners, schedulers = (
        make(results) for make in (tables.gains_table, tables.tuner_table, tables.scheduler_table)
    )
    every = tables.situation_table(results)
    return Report(
        about=_about(results),
        note=FITTED,
        findings=[Section("What came out", said), Section("Where this is not what the paper says, and why", differ)],
        records=files,
        document={
            "settings": dict(results.settings),
            "note": FITTED,
            "conclusions": said,
            "differences": differ,
            **{name: files[name] for name in _IN_DOCUMENT},
        },
        figures=figures_of(results),
        summary=[gains, tuners, schedulers],
        tables=[
            gains,
            tables.precision_table(results),
            tables.classifier_table(),
            tables.instance_table(results),
            tuners,
            schedulers,
            tables.model_table(),
        ],
        details=Details("All situations", "", [every]),
    )


def _about(results: RequestWindowsResults) -> str:
    settings = results.settings
    totals = sorted({e.workload.total for e in results.experiments})
    total = " to ".join(_format_total(total) for total in dict.fromkeys((totals[0], totals[-1])))
    return (
        f"{len(results.experiments)} situations and {len(results.windows)} windows of the twins scheduler, in "
        f"simulation, after Bez et al. 2019, section 6; {total} in each run, "
        f"{plural(int(str(settings.get('repetitions'))), 'repetition')}, I/O nodes that observe for "
        f"{settings.get('period')} s, {settings.get('replays')} repetitions of what is learned, seed "
        f"{settings.get('seed')}."
    )


def _format_total(total: int) -> str:
    """
    >>> _format_total(4 << 30), _format_total(1_500_000_000)
    ('4 GiB', '1.50 GB')
    """
    return format_size(total) if total % MIB else format_binary(total)
