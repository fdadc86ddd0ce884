"""The findings, computed from the results; what was not run is left out. And the report with them."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from forebay.model.layout import KIB, MIB
from forebay.model.units import format_size, plural
from forebay.show.phrases import format_binary, join_names
from forebay.show.report import Details, Report, Section
from forebay.show.rows import Record, distinct, records, select
from forebay.studies.request_windows import results as study
from forebay.studies.request_windows import tables
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion
from forebay.studies.request_windows.figures import figures_of
from forebay.studies.request_windows.results import FOREBAY, NOTABLE, TENTH, RequestWindowsResults, Way, percent

FITTED = (
    "The data servers are a model whose numbers are fitted to the paper's figures: that windows do here what they do "
    "there is no validation of the paper. What tuners and classifiers make of it is what this study finds."
)
_LIMIT = f"{100 * NOTABLE:.0f} %"
_SETS = {study.SEEN: "of the study's periods", study.UNSEEN: "of those with other sizes of requests and files"}
_DEMANDS = {study.BURSTS: "by bursts", study.THINKING: "by processes that think"}
_REWARDS = ("bandwidth", "demand")
_WORSE = 1.05  # times what is lost without hearing of others: from then on it was bad to hear of them
_ALIKE = 0.1  # precision of what is called learned alike
_HALF = 0.5  # of what epsilon 0.1 loses: what forebay may lose at most
_PAPER_GAIN = 0.28  # the most that windows win for reads of shared files (section 2)
_PAPER_HITS = 0.88  # of decisions, in hundreds of steps (section 8)
_EPSILON = 0.15
_GAIN, _SHARE, _HITS, _POINTS = 0.1, 0.03, 0.08, 1.0  # up to so much apart is called alike
_TIED = 0.01
_ROUND = 4 * 64 * KIB  # bytes of a file that are one stripe on each of four servers


def conclusions(results: RequestWindowsResults) -> list[str]:
    parts = (_windows, _detection, _learning, _regret, _demand, _schedulers)
    return [sentence for part in parts for sentence in part(results)]


def differences(results: RequestWindowsResults) -> list[str]:
    """Where this is not what the paper says, each with its reason; where they are alike, there is no sentence."""
    parts = (_gains_differ, _shares_differ, _precision_differs, _detection_differs)
    return [sentence for part in parts for sentence in part(results)]


def _windows(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    best, count = gains.max(axis=1), gains.shape[1]
    high, low = (_describe_place(results, *divmod(int(at), count)) for at in (gains.argmax(), gains.argmin()))
    yield (
        f"Over fifo, the best of {count} windows wins more than {_LIMIT} in {(best > NOTABLE).sum()} of {best.size} "
        f"situations and loses more than that in {(best < -NOTABLE).sum()}. The best that a window does is "
        f"{percent(gains.max())} ({high}), the worst {percent(gains.min())} ({low})."
    )
    medians = {
        f"{study.SHORT[pattern]} {operation}s": float(np.median(best[chosen]))
        for pattern, operation in product(results.values_of("pattern"), results.values_of("operation"))
        if (chosen := results.find_experiments(pattern=pattern, operation=operation)).size
    }
    order = sorted(medians, key=lambda name: -medians[name])
    yield f"The best window's gain, median: {', '.join(f'{name} {percent(medians[name], 1)}' for name in order)}."
    single = results.find_experiments(nodes=1)
    if single.size:
        yield (
            f"Through one I/O node, where there is nobody to keep out of the way of, even the best window loses more "
            f"than {_LIMIT} in {(best[single] < -NOTABLE).sum()} of {single.size} situations."
        )
    if count > 1:
        bandwidths = results.bandwidths()[:, 1:]
        shares = (bandwidths / bandwidths.max(axis=1, keepdims=True)).mean(axis=0)
        fits, worst = (study.milliseconds(results.windows[int(at)]) for at in (shares.argmax(), shares.argmin()))
        yield (
            f"No window fits all: {len(np.unique(bandwidths.argmax(axis=1)))} of {count} are the best somewhere, and "
            f"the one that does best everywhere ({fits} ms) gives {100 * shares.max():.1f} % of what the best of each "
            f"situation gives, on average; the worst ({worst} ms) gives {100 * shares.min():.1f} %."
        )


def _describe_place(results: RequestWindowsResults, experiment: int, window: int) -> str:
    return f"{results.describe_experiment(experiment)}; {study.milliseconds(results.windows[window])} ms"


def _detection(results: RequestWindowsResults) -> Iterator[str]:
    right = {key: tables.format_accuracy(confusion(results.detected, *key)) for key in tables.detectors(results)}
    parts = [
        f"the {by} recognises {join_names(shares)}"
        for by in CLASSIFIERS
        if (shares := [f"{right[of, by]} {periods}" for of, periods in _SETS.items() if (of, by) in right])
    ]
    if parts:
        yield f"Of access patterns, {' and '.join(parts)} (paper: 99.82 %, sizes seen in training)."


def _learning(results: RequestWindowsResults) -> Iterator[str]:
    """In the paper's instances, each alone and in turns."""
    shares = [
        f"{r['instance']} from {r['first_share']:.2f} to {r['last_share']:.2f} (paper: {r['paper_first_share']:.2f} to "
        f"{r['paper_last_share']:.2f}), precision {100 * r['last_precision']:.0f} %"
        for r in _paper_instances(results)
    ]
    if shares:
        yield (
            f"With epsilon 0.15, from the first to the last of {results.steps} steps, the share of the best window's "
            f"performance rises: {'; '.join(shares)}."
        )
    together, alone = results.learned_together(TENTH), results.learned_alone(Way(TENTH))
    turns, apart = [], 0.0
    for letter, number in results.instances().items():
        both = [select(rows, experiment=number) for rows in (together, alone)]
        if all(rows.size for rows in both):
            ends = [study.over_steps(rows, "precision")[1][-5:].mean() for rows in both]
            apart = max(apart, abs(ends[0] - ends[1]))
            turns.append(f"{letter} {100 * ends[0]:.0f} % (alone {100 * ends[1]:.0f} %)")
    if turns:
        most = int(study.over_steps(together, "precision")[0].max())
        yield (
            f"Instances that take turns {'learn' if apart <= _ALIKE else 'do not learn'} as they do alone, over as "
            f"many steps of their own: with epsilon 0.1, precision in the end of {most} steps together, "
            f"{most // len(turns)} each, and of {results.steps} alone: {', '.join(turns)}."
        )


def _regret(results: RequestWindowsResults) -> Iterator[str]:
    rows = {r["tuner"]: r for r in tables.tuner_records(results) if r["similar"] == "no"}
    if FOREBAY in rows and TENTH in rows:
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
            yield f"The others lose: {', '.join(f'{study.tuner_label(name)} {lost:.2f}' for lost, name in others)}."
    heard, plain = (results.learned_alone(Way(FOREBAY, similar)) for similar in (True, False))
    if heard.size and plain.size:
        steps, (before, *_) = study.over_steps(heard, "regret")
        early = [before, study.over_steps(plain, "regret")[1][0]]
        late = [float(study.last_values(rows, "regret").mean()) for rows in (heard, plain)]
        yield (
            f"Where it has met similar situations before, forebay loses {early[0]:.2f} instead of {early[1]:.2f} steps "
            f"in the first {int(steps[0])}, and {late[0]:.2f} instead of {late[1]:.2f} in all "
            f"{results.steps}" + (": what it heard misleads it later on." if late[0] > _WORSE * late[1] else ".")
        )


def _demand(results: RequestWindowsResults) -> Iterator[str]:
    """For each tuner and each kind of changing demand, the mean share in the second half of the steps."""
    for demand, cause in _DEMANDS.items():
        rows = select(results.demanded, demand=demand)
        for tuner in distinct(rows, "tuner"):
            parts, won = [], 0
            for letter, number in results.instances().items():
                here = select(rows, tuner=tuner, experiment=number)
                every = [study.over_steps(select(here, reward=reward), "share")[1] for reward in _REWARDS]
                if all(share.size for share in every):
                    plain, fair = (float(share[share.size // 2 :].mean()) for share in every)
                    parts.append(f"{letter} {100 * plain:.1f} and {100 * fair:.1f} %")
                    won += fair > plain
            if parts:
                yield (
                    f"When demand changes {cause}, {study.tuner_label(tuner)} has in its last {results.steps // 2} "
                    f"steps, by bandwidth and by bandwidth over demand, of what the best windows give: "
                    f"{', '.join(parts)}; demand as part of the reward is the better in {won} of {len(parts)}."
                )


def _schedulers(results: RequestWindowsResults) -> Iterator[str]:
    over = {name: ratio - 1 for name, ratio in results.schedulers().items() if name not in (study.FIFO, study.TWINS)}
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
        verb, them = ("does", "it") if len(alike) == 1 else ("do", "them")
        yield (
            f"{join_names(alike)} {verb} as fifo, within {_LIMIT}: one program with requests of one size leaves "
            f"{them} little to choose from."
        )


def _gains_differ(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    kinds = (f"shared-{order}" for order in ("contiguous", "strided"))
    shared = np.concatenate([results.find_experiments(pattern=kind, operation="read") for kind in kinds])
    if not shared.size or abs(gains[shared].max() - _PAPER_GAIN) <= _GAIN:
        return
    best = int(shared[gains[shared].max(axis=1).argmax()])
    work, gain = results.experiments[best].workload, gains[best].max()
    # Whether all processes' parts of a shared file begin on one server.
    convoy = work.pattern == "shared-contiguous" and (work.requests * work.request) % _ROUND == 0
    why = (
        "There each process's part of the file begins on the same server, so that under fifo all processes go from "
        "server to server together and the others idle; windows break that up, whatever else they do."
        if gain > _PAPER_GAIN and convoy
        else "What a window can win is what the model charges for other nodes and for gaps, fitted to other figures."
    )
    yield (
        f"The best that a window does for reads of a shared file is {percent(gain)} "
        f"({_describe_place(results, best, int(gains[best].argmax()))}); the paper cites {percent(_PAPER_GAIN)}. {why}"
    )


def _shares_differ(results: RequestWindowsResults) -> Iterator[str]:
    rows = _paper_instances(results)
    # The mean of all windows as a share of the best.
    random = {k: float(_window_shares(results, number).mean()) for k, number in results.instances().items()}
    first = [
        f"{r['instance']} {r['first_share']:.2f} (paper: {r['paper_first_share']:.2f}; any window at random: "
        f"{random[r['instance']]:.2f})"
        for r in rows
        if abs(r["first_share"] - r["paper_first_share"]) > _SHARE
    ]
    if first:
        yield (
            f"Share of the best in the first bin, epsilon 0.15: {', '.join(first)}. The first steps take windows "
            "nearly at random, so that this is how much windows differ in the model."
        )
    for r in rows:
        ours, paper, most = r["last_share"], r["paper_last_share"], 1 - _EPSILON * (1 - random[r["instance"]])
        if abs(ours - paper) > _SHARE:
            why = (
                f"With every seventh decision left to chance, {most:.2f} is the most that can be had where windows "
                "differ as they do here."
                if ours < paper
                else "Windows that are taken by mistake cost less here."
            )
            where = f"Share of the best in the last bin, {r['instance']}, epsilon 0.15"
            yield f"{where}: {ours:.2f} (paper: {paper:.2f}). {why}"


def _precision_differs(results: RequestWindowsResults) -> Iterator[str]:
    rows = tables.instance_records(results)
    for letter, number in results.instances().items():
        reached = [r["last_precision"] for r in rows if r["instance"] == letter and r["tuner"].startswith("epsilon-g")]
        if reached and _PAPER_HITS - max(reached) > _HITS:
            shares = np.sort(_window_shares(results, number))[::-1]
            near = int((shares > 1 - _TIED).sum()) - 1
            yield (
                f"In {letter} the best window is taken in {100 * max(reached):.0f} % of the last decisions by the best "
                f"epsilon, where the paper has about {100 * _PAPER_HITS:.0f} %: the next best window gives "
                f"{100 * shares[1]:.1f} % of the best one's bandwidth, {near or 'none'} of the others more than "
                f"{100 * (1 - _TIED):.0f} %, so that it takes longer to tell them apart and matters less."
            )


def _detection_differs(results: RequestWindowsResults) -> Iterator[str]:
    for r in tables.precision_records(results):
        if r["set"] == study.SEEN and r["of"] in ("read", "write") and r["paper_mean"] - r["mean"] > _POINTS:
            yield (
                f"The {r['classifier']} recognises {r['mean']:.1f} % of {r['of']} periods on average over experiments "
                f"(least {r['least']:.1f} %), where the paper has {r['paper_mean']:.1f} % (least "
                f"{r['paper_least']:.1f} %). It was trained on runs of many sizes and lengths of periods, some with "
                "two programs at a time, not on these experiments; the paper's classifier was trained on a "
                "part of what it was tested on."
            )


def _paper_instances(results: RequestWindowsResults) -> list[Record]:
    """Those records of instances that the paper has."""
    return [r for r in tables.instance_records(results) if (r["tuner"], r["similar"]) == (study.PAPERS, "no")]


def _window_shares(results: RequestWindowsResults, experiment: int) -> Any:
    """The mean bandwidth of each window as a share of the best."""
    samples = study.samples_of(results.periods, len(results.experiments), results.windows)
    means = np.array([sample.mean() for sample in samples[experiment]])
    return means / means.max()


def make_report(results: RequestWindowsResults) -> Report:
    settings, sentences, differ = results.settings, conclusions(results), differences(results)
    totals = sorted({e.workload.total for e in results.experiments})
    total = " to ".join(_format_total(total) for total in dict.fromkeys((totals[0], totals[-1])))
    in_document = {
        "situations": tables.situation_records(results),
        "windows": tables.window_records(results),
        "schedulers": tables.scheduler_records(results),
        "tuners": tables.tuner_records(results),
        "instances": tables.instance_records(results),
        "precision": tables.precision_records(results),
    }
    summary = [make(results) for make in (tables.gains_table, tables.tuner_table, tables.scheduler_table)]
    return Report(
        about=f"{len(results.experiments)} situations and {len(results.windows)} windows of the twins scheduler, in "
        f"simulation, after Bez et al. 2019, section 6; {total} in each run, "
        f"{plural(int(str(settings.get('repetitions'))), 'repetition')}, I/O nodes that observe for "
        f"{settings.get('period')} s, {settings.get('replays')} repetitions of what is learned, seed "
        f"{settings.get('seed')}.",
        note=FITTED,
        findings=[
            Section("What came out", sentences),
            Section("Where this is not what the paper says, and why", differ),
        ],
        records={
            **in_document,
            "learned": tables.learned_records(results),
            "detected": tables.detected_records(results),
            "demanded": records(results.demanded),
        },
        document={
            "settings": dict(settings),
            "note": FITTED,
            "conclusions": sentences,
            "differences": differ,
            **in_document,
        },
        figures=figures_of(results),
        summary=summary,
        tables=[
            summary[0],
            tables.precision_table(results),
            tables.classifier_table(),
            tables.instance_table(results),
            *summary[1:],
            tables.model_table(),
        ],
        details=Details("All situations", "", [tables.situation_table(results)]),
    )


def _format_total(total: int) -> str:
    """
    >>> _format_total(4 << 30), _format_total(1_500_000_000)
    ('4 GiB', '1.50 GB')
    """
    return format_size(total) if total % MIB else format_binary(total)
