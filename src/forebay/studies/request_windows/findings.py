"""The findings, computed from the results, and the report. A comparison that lacks runs is left out."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from forebay.model.layout import KIB, MIB
from forebay.model.units import format_binary, format_size, plural
from forebay.show.phrases import join_names
from forebay.show.report import Details, Report, Section
from forebay.show.rows import Record, distinct_values, records, select
from forebay.studies.request_windows import results as study
from forebay.studies.request_windows import tables
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion
from forebay.studies.request_windows.figures import figures_of
from forebay.studies.request_windows.results import (
    FOREBAY,
    NOTABLE,
    PAPER_PRECISION,
    TENTH,
    RequestWindowsResults,
    Way,
    percent,
)

FITTED = (
    "The model of the data servers is fitted to the paper's figures, so the effect of windows here is no validation of "
    "the paper. The study shows what tuners and classifiers achieve with that model."
)
_LIMIT = f"{100 * NOTABLE:.0f} %"
_SETS = {study.SEEN: "of the study's periods", study.UNSEEN: "of those with other sizes of requests and files"}
_DEMANDS = {study.BURSTS: "in bursts", study.THINKING: "with think time"}
_REWARDS = ("bandwidth", "demand")
_WORSE = 1.05  # times the loss without similar situations, above which they mislead
_ALIKE = 0.1  # difference of precision up to which learning counts as equal
_HALF = 0.5  # the goal: forebay loses at most this share of what epsilon 0.1 loses
_PAPER_GAIN = 0.28  # the largest gain of windows for reads of shared files (section 2)
_EPSILON = 0.15
_GAIN, _SHARE, _HITS, _POINTS = 0.1, 0.03, 0.08, 1.0  # differences up to these count as equal
_TIED = 0.01
_ROUND = 4 * 64 * KIB  # bytes of a file in one stripe on each of four servers


def conclusions(results: RequestWindowsResults) -> list[str]:
    parts = (_windows, _detection, _learning, _horizon, _regret, _demand, _schedulers)
    return [sentence for part in parts for sentence in part(results)]


def differences(results: RequestWindowsResults) -> list[str]:
    """Return a sentence for each difference from the paper, with its reason."""
    parts = (_gains_differ, _shares_differ, _precision_differs, _detection_differs)
    return [sentence for part in parts for sentence in part(results)]


def _windows(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    best, count = gains.max(axis=1), gains.shape[1]
    high, low = (_describe_place(results, *divmod(int(at), count)) for at in (gains.argmax(), gains.argmin()))
    yield (
        f"Compared with fifo, the best of {count} windows gains more than {_LIMIT} in {(best > NOTABLE).sum()} of "
        f"{best.size} situations and loses more than that in {(best < -NOTABLE).sum()}. The largest gain is "
        f"{percent(gains.max())} ({high}), the largest loss {percent(gains.min())} ({low})."
    )
    medians = {
        f"{study.SHORT[pattern]} {operation}s": float(np.median(best[chosen]))
        for pattern, operation in product(results.values_of("pattern"), results.values_of("operation"))
        if (chosen := results.find_experiments(pattern=pattern, operation=operation)).size
    }
    order = sorted(medians, key=lambda name: -medians[name])
    yield f"Median gain of the best window: {', '.join(f'{name} {percent(medians[name], 1)}' for name in order)}."
    single = results.find_experiments(nodes=1)
    if single.size:
        yield (
            f"Through a single I/O node, where windows have no conflicts to avoid, even the best window loses more "
            f"than {_LIMIT} in {(best[single] < -NOTABLE).sum()} of {single.size} situations."
        )
    if count > 1:
        bandwidths = results.bandwidths()[:, 1:]
        shares = (bandwidths / bandwidths.max(axis=1, keepdims=True)).mean(axis=0)
        fits, worst = (study.milliseconds(results.windows[int(at)]) for at in (shares.argmax(), shares.argmin()))
        yield (
            f"No window fits all: {len(np.unique(bandwidths.argmax(axis=1)))} of {count} are the best somewhere. On "
            f"average, the best single window ({fits} ms) gives {100 * shares.max():.1f} % of the bandwidth of each "
            f"situation's best window; the worst ({worst} ms) gives {100 * shares.min():.1f} %."
        )


def _describe_place(results: RequestWindowsResults, experiment: int, window: int) -> str:
    return f"{results.describe_experiment(experiment)}; {study.milliseconds(results.windows[window])} ms"


def _detection(results: RequestWindowsResults) -> Iterator[str]:
    right = {key: tables.format_accuracy(confusion(results.detected, *key)) for key in tables.detectors(results)}
    parts = [
        f"the {by} recognises the pattern in {join_names(shares)}"
        for by in CLASSIFIERS
        if (shares := [f"{right[of, by]} {periods}" for of, periods in _SETS.items() if (of, by) in right])
    ]
    if parts:
        yield f"Access patterns: {'; '.join(parts)} (paper: 99.82 %, with sizes seen in training)."


def _learning(results: RequestWindowsResults) -> Iterator[str]:
    """Describe learning in the paper's instances, each alone and in turns."""
    shares = [
        f"{r['instance']} from {r['first_share']:.2f} to {r['last_share']:.2f} (paper: {r['paper_first_share']:.2f} to "
        f"{r['paper_last_share']:.2f}), precision {100 * r['last_precision']:.0f} %"
        for r in _paper_instances(results)
    ]
    if shares:
        yield (
            f"With epsilon 0.15, the share of the best window's performance changes over {results.steps} steps: "
            f"{'; '.join(shares)}."
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
            f"Instances that take turns {'learn' if apart <= _ALIKE else 'do not learn'} as they do alone. Precision "
            f"with epsilon 0.1 at the end of {most} steps together ({most // len(turns)} each) and of {results.steps} "
            f"steps alone: {', '.join(turns)}."
        )


def _horizon(results: RequestWindowsResults) -> Iterator[str]:
    """Describe precision after many more steps, for the best epsilon of each instance and forebay."""
    rows, parts, steps = results.learned_longer, [], 0
    for letter, number in results.instances().items():
        ends = {}
        for name in distinct_values(rows, "tuner"):
            at, values = study.over_steps(select(rows, tuner=name, experiment=number), "precision")
            early = values[at <= results.steps]
            ends[name] = (float(values[-10:].mean()), float(early[-10:].mean()))
            steps = max(steps, int(at[-1]))
        greedy = [name for name in ends if name.startswith("epsilon-g")]
        best = max(greedy, key=lambda name: ends[name], default=None)
        for name in filter(None, (best, FOREBAY if FOREBAY in ends else None)):
            late, before = ends[name]
            parts.append(f"{letter} {100 * late:.0f} % with {study.tuner_label(name)} ({100 * before:.0f} % before)")
    if parts:
        yield (
            f"Precision grows with the number of steps. After {steps} instead of {results.steps} steps: "
            f"{', '.join(parts)}; the paper has about {100 * PAPER_PRECISION:.0f} %."
        )


def _regret(results: RequestWindowsResults) -> Iterator[str]:
    rows = {r["tuner"]: r for r in tables.tuner_records(results) if r["similar"] == "no"}
    if FOREBAY in rows and TENTH in rows:
        ours, tenth = rows[FOREBAY], rows[TENTH]
        ratio = ours["of_epsilon_0.1"]
        yield (
            f"After {ours['steps']} steps, on average over {len(results.experiments)} situations, forebay has lost "
            f"{ours['regret']:.2f} steps of the best window and epsilon 0.1 {tenth['regret']:.2f}: forebay's regret is "
            f"{ratio:.2f} of that, {'at most' if ratio <= _HALF else 'more than'} half (at most half in "
            f"{100 * ours['situations_at_most_half']:.0f} % of situations). At the end, forebay reaches "
            f"{100 * ours['share']:.2f} % of the best window's performance, epsilon 0.1 {100 * tenth['share']:.2f} %."
        )
        others = sorted((r["regret"], name) for name, r in rows.items() if name not in (FOREBAY, TENTH))
        if others:
            yield f"Others lose (steps): {', '.join(f'{study.tuner_label(name)} {lost:.2f}' for lost, name in others)}."
    after, plain = (results.learned_alone(Way(FOREBAY, similar)) for similar in (True, False))
    if after.size and plain.size:
        steps, (before, *_) = study.over_steps(after, "regret")
        early = [before, study.over_steps(plain, "regret")[1][0]]
        late = [float(study.last_values(rows, "regret").mean()) for rows in (after, plain)]
        yield (
            f"After similar situations, forebay loses {early[0]:.2f} instead of {early[1]:.2f} steps "
            f"in the first {int(steps[0])}, and {late[0]:.2f} instead of {late[1]:.2f} in all "
            f"{results.steps}" + (": the earlier situations mislead it." if late[0] > _WORSE * late[1] else ".")
        )


def _demand(results: RequestWindowsResults) -> Iterator[str]:
    """Give the mean share in the second half of the steps, for each tuner and each kind of changing demand."""
    for demand, cause in _DEMANDS.items():
        rows = select(results.demanded, demand=demand)
        for tuner in distinct_values(rows, "tuner"):
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
                    f"When demand changes {cause}, {study.tuner_label(tuner)} reaches these shares of the best windows "
                    f"in its last {results.steps // 2} steps, with bandwidth and with bandwidth over demand as reward: "
                    f"{', '.join(parts)}; bandwidth over demand is better in {won} of {len(parts)}."
                )


def _schedulers(results: RequestWindowsResults) -> Iterator[str]:
    over = {name: ratio - 1 for name, ratio in results.schedulers().items() if name not in (study.FIFO, study.TWINS)}
    alike = [name for name, gain in over.items() if np.abs(gain).max() <= NOTABLE]
    parts = [
        f"{name} {percent(float(gain.min()))} to {percent(float(gain.max()))} (gains in {(gain > NOTABLE).sum()}, "
        f"loses in {(gain < -NOTABLE).sum()})"
        for name, gain in over.items()
        if name not in alike
    ]
    if parts:
        yield f"Other schedulers compared with fifo, in {len(results.experiments)} situations: {'; '.join(parts)}."
    if alike:
        verb, them = ("equals", "it") if len(alike) == 1 else ("equal", "them")
        yield (
            f"{join_names(alike)} {verb} fifo within {_LIMIT}: one program with requests of one size leaves "
            f"{them} little choice."
        )


def _gains_differ(results: RequestWindowsResults) -> Iterator[str]:
    gains = results.gains()
    kinds = (f"shared-{order}" for order in ("contiguous", "strided"))
    shared = np.concatenate([results.find_experiments(pattern=kind, operation="read") for kind in kinds])
    if not shared.size or abs(gains[shared].max() - _PAPER_GAIN) <= _GAIN:
        return
    best = int(shared[gains[shared].max(axis=1).argmax()])
    work, gain = results.experiments[best].workload, gains[best].max()
    # Whether the parts of all processes in a shared file begin on the same server.
    convoy = work.pattern == "shared-contiguous" and (work.requests * work.request) % _ROUND == 0
    why = (
        "There, each process's part of the file begins on the same server, so under fifo all processes move from "
        "server to server together while the other servers idle. Any window breaks this convoy up."
        if gain > _PAPER_GAIN and convoy
        else "A window saves what the model charges for changes of node and for gaps, which is fitted to other figures."
    )
    yield (
        f"The largest gain of a window for reads of a shared file is {percent(gain)} "
        f"({_describe_place(results, best, int(gains[best].argmax()))}); the paper cites {percent(_PAPER_GAIN)}. {why}"
    )


def _shares_differ(results: RequestWindowsResults) -> Iterator[str]:
    rows = _paper_instances(results)
    # The mean of all windows as a share of the best.
    random = {k: float(_window_shares(results, number).mean()) for k, number in results.instances().items()}
    first = [
        f"{r['instance']} {r['first_share']:.2f} (paper: {r['paper_first_share']:.2f}; a random window: "
        f"{random[r['instance']]:.2f})"
        for r in rows
        if abs(r["first_share"] - r["paper_first_share"]) > _SHARE
    ]
    if first:
        yield (
            f"Share of the best in the first bin, epsilon 0.15: {', '.join(first)}. The first steps take nearly "
            "random windows, so this shows how much windows differ in the model."
        )
    for r in rows:
        ours, paper, most = r["last_share"], r["paper_last_share"], 1 - _EPSILON * (1 - random[r["instance"]])
        if abs(ours - paper) > _SHARE:
            why = (
                f"With every seventh decision left to chance, {most:.2f} is the maximum for windows that differ as "
                "they do here."
                if ours < paper
                else "A wrong window costs less here."
            )
            where = f"Share of the best in the last bin, {r['instance']}, epsilon 0.15"
            yield f"{where}: {ours:.2f} (paper: {paper:.2f}). {why}"


def _precision_differs(results: RequestWindowsResults) -> Iterator[str]:
    rows = tables.instance_records(results)
    for letter, number in results.instances().items():
        reached = [r["last_precision"] for r in rows if r["instance"] == letter and r["tuner"].startswith("epsilon-g")]
        if reached and PAPER_PRECISION - max(reached) > _HITS:
            shares = np.sort(_window_shares(results, number))[::-1]
            near = int((shares > 1 - _TIED).sum()) - 1
            yield (
                f"In {letter}, the best epsilon takes the best window in {100 * max(reached):.0f} % of the last "
                f"decisions; the paper has about {100 * PAPER_PRECISION:.0f} %. The next best window gives "
                f"{100 * shares[1]:.1f} % of the best one's bandwidth, and {near or 'none'} of the others more than "
                f"{100 * (1 - _TIED):.0f} %, so telling them apart takes longer and matters less."
            )


def _detection_differs(results: RequestWindowsResults) -> Iterator[str]:
    for r in tables.precision_records(results):
        if r["set"] == study.SEEN and r["of"] in ("read", "write") and r["paper_mean"] - r["mean"] > _POINTS:
            yield (
                f"The {r['classifier']} recognises {r['mean']:.1f} % of {r['of']} periods on average over experiments "
                f"(least {r['least']:.1f} %); the paper has {r['paper_mean']:.1f} % (least "
                f"{r['paper_least']:.1f} %). Our classifier was trained on runs of many sizes and periods of many "
                "lengths, some with two programs at a time, and not on these experiments. The paper's classifier was "
                "trained on some of its test data."
            )


def _paper_instances(results: RequestWindowsResults) -> list[Record]:
    """Return the records of the instances and the tuner that the paper has."""
    return [r for r in tables.instance_records(results) if (r["tuner"], r["similar"]) == (study.PAPERS, "no")]


def _window_shares(results: RequestWindowsResults, experiment: int) -> Any:
    """Return the mean bandwidth of each window as a share of the best."""
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
        f"{settings.get('period')} s, {settings.get('replays')} repetitions of learning, seed "
        f"{settings.get('seed')}.",
        note=FITTED,
        findings=[
            Section("Findings", sentences),
            Section("Differences from the paper, and why", differ),
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
