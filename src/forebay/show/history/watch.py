"""Shows what `forebay history watch` finds: as tables, as JSON, as a mail, and as metrics for Prometheus."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import typer

from forebay.act.metrics import Metric, Sample
from forebay.model.units import format_binary, format_duration, plural
from forebay.profile.watch.change_point import LEAST_AFTER, LEAST_BEFORE
from forebay.profile.watch.contention import Contention, PairedRun
from forebay.profile.watch.losses import Loss
from forebay.profile.watch.regressions import Regression
from forebay.profile.watch.report import WatchReport
from forebay.profile.watch.slow_targets import SlowTarget
from forebay.show.output import Document, print_rows, printable
from forebay.show.phrases import format_time, mount_name

MOST_SHOWN = 10
_WIDTH = 72  # of a mail

_HOURS = "node hours (process hours, if the nodes of no job are known)"
METRICS = {
    "time": Metric("forebay_watch_time_seconds", "end of the period that was looked at, in seconds since 1970."),
    "runs": Metric("forebay_watch_runs", "runs that started in the period."),
    "news": Metric(
        "forebay_watch_news",
        "what began in the period: application (slower), target (slow), pair (of jobs in each other's way).",
        ("kind",),
    ),
    "slowdown": Metric(
        "forebay_watch_slowdown_ratio",
        "I/O seconds per byte of an application that became slower, relative to its own past.",
        ("app", "user", "processes", "filesystem", "first_bad_run"),
    ),
    "target": Metric(
        "forebay_watch_target_slowness_ratio",
        "I/O seconds per byte on a slow OST, relative to the other OSTs.",
        ("filesystem", "ost"),
    ),
    "hours": Metric("forebay_watch_hours", f"{_HOURS} of all runs of the period."),
    "lost": Metric("forebay_watch_lost_hours", f"{_HOURS} that all runs of the period spent in I/O."),
    "app": Metric("forebay_watch_app_lost_hours", f"{_HOURS} in I/O of the applications with most.", ("app",)),
    "user": Metric("forebay_watch_user_lost_hours", f"{_HOURS} in I/O of the users with most.", ("user",)),
    "gain": Metric(
        "forebay_watch_gain_hours", f"{_HOURS} that a change to an application is predicted to save.", ("app", "code")
    ),
}
"""All are gauges; a series disappears when it is no longer found."""


def watch_metrics(report: WatchReport) -> Iterator[Sample]:
    yield METRICS["time"].number(report.until)
    yield METRICS["runs"].number(report.runs)
    yield METRICS["news"].number(sum(r.is_news for r in report.regressions.all), "application")
    yield METRICS["news"].number(sum(t.is_new for t in report.targets), "target")
    likely = sum(pair.is_likely for pair in report.contentions.pairs)
    yield METRICS["news"].number(likely, "pair")
    for place, slowdown in _worst_by_place(report.regressions.all).items():
        yield METRICS["slowdown"].number(slowdown, *place)
    for target in report.targets:
        yield METRICS["target"].number(target.slowness, mount_name(target.filesystem), str(target.ost))
    yield METRICS["hours"].number(report.losses.hours)
    yield METRICS["lost"].number(report.losses.lost_hours)
    for app in report.losses.apps:
        yield METRICS["app"].number(app.lost_hours, printable(app.name))
    for user in report.losses.users:
        yield METRICS["user"].number(user.lost_hours, printable(user.name))
    for remedy in report.losses.remedies:
        yield METRICS["gain"].number(remedy.gain_hours, printable(remedy.app), remedy.code)


def _worst_by_place(regressions: Sequence[Regression]) -> dict[tuple[str, ...], float]:
    """The slowdown by labels, which must not occur twice."""
    worst: dict[tuple[str, ...], float] = {}
    for r in regressions:
        mount, first = mount_name(r.filesystem), str(r.first_bad_run)
        place = (printable(r.app), printable(r.user), str(r.nprocs), mount, first)
        worst[place] = max(worst.get(place, 0.0), r.slowdown)
    return worst


def watch_document(report: WatchReport) -> Document:
    """The document of `forebay history watch --json`."""
    regressions, contentions = report.regressions, report.contentions
    return {
        "since": report.since,
        "until": report.until,
        "runs": report.runs,
        "earlier_runs": report.earlier_runs,
        "news": report.has_news,
        "tested_kinds": regressions.tested,
        "slow_filesystems": list(regressions.slow_filesystems),
        "slower": [asdict(regression) | _layouts(regression) for regression in regressions.all],
        "compared_osts": report.compared_osts,
        "targets": [asdict(target) for target in report.targets],
        "tested_pairs": contentions.tested,
        "pairs_since": contentions.since,
        "pairs_unknown": contentions.because or None,
        "pairs": [asdict(pair) | {"certainty": pair.certainty} for pair in contentions.pairs],
        "losses": asdict(report.losses),
    }


def _layouts(regression: Regression) -> Document:
    sides = {"layout_before": regression.layout_before, "layout_after": regression.layout_after}
    return {name: {"stripe_count": count, "stripe_size": size} for name, (count, size) in sides.items()}


def print_watch(report: WatchReport, newest: float | None) -> None:
    """`forebay history watch`; `newest` is the start of the newest run before the end of the period."""
    period = f"between {format_time(report.since)} and {format_time(report.until)}"
    if not report.runs:
        last = f"; the newest run started at {format_time(newest)} (--since DATE goes back further)" if newest else ""
        typer.echo(f"No run started {period}{last}.")
        return
    typer.echo(f"{plural(report.runs, 'run')} started {period}; {report.earlier_runs:,} earlier ones are known.")
    _print_regressions(report)
    _print_targets(report)
    _print_contentions(report)
    _print_losses(report)


def _print_regressions(report: WatchReport) -> None:
    regressions = report.regressions
    kinds = plural(regressions.tested, "kind")
    if not regressions.tested:
        typer.echo(
            f"Slower applications: unknown, because no application has {LEAST_BEFORE} comparable runs and "
            f"{LEAST_AFTER} later ones."
        )
        return
    if not regressions.all:
        typer.echo(f"No application became slower than its own past ({kinds} of runs compared).")
        return
    rows = [
        {
            "application": printable(r.app),
            "user": printable(r.user) or "-",
            "processes": r.nprocs,
            "file system": mount_name(r.filesystem),
            "times as slow": f"{r.slowdown:.1f}",
            "first bad run": r.first_bad_run,
            "started": format_time(r.first_bad_time),
            "runs before, since": f"{r.runs_before}, {r.runs_after}",
            "chance": _format_chance(r.chance),
            "new": "yes" if r.is_new else "",
            "perhaps because": describe_cause(r),
        }
        for r in regressions.all[:MOST_SHOWN]
    ]
    print_rows(f"Slower than their own past ({kinds} of runs compared)", rows)
    _print_more(len(regressions.all))
    for mount in regressions.slow_filesystems:
        typer.echo(describe_slow_filesystem(mount))


def describe_slow_filesystem(mount: str) -> str:
    """One sentence."""
    return f"Most applications on {mount_name(mount)} became slower: look at the file system before the applications."


def describe_cause(regression: Regression) -> str:
    """What else changed; "" if nothing did."""
    if regression.slow_osts:
        return f"slow OST {', '.join(map(str, regression.slow_osts))}"
    return describe_layouts(regression)


def describe_layouts(regression: Regression) -> str:
    """How the layout of most runs changed; "" if it did not or is unknown."""
    before, after = regression.layout_before, regression.layout_after
    if before == after or not all((*before, *after)):
        return ""
    first, last = (f"{count} x {format_binary(size)}" for count, size in (before, after))
    return f"{first} before, {last} since"


def _print_targets(report: WatchReport) -> None:
    if not report.targets:
        compared = (
            f"{plural(report.compared_osts, 'OST')} compared" if report.compared_osts else "too few runs compare any"
        )
        typer.echo(f"No OST became slow ({compared}).")
        return
    rows = [
        {
            "file system": mount_name(t.filesystem),
            "OST": t.ost,
            "times as slow as others": f"{t.slowness:.1f}",
            "as before": "-" if t.slowdown is None else f"{t.slowdown:.1f}",
            "since run": t.first_bad_run or "-",
            "started": "-" if t.first_bad_time is None else format_time(t.first_bad_time),
            "chance": "-" if t.chance is None else _format_chance(t.chance),
            "new": "yes" if t.is_new else "",
            "because": t.because,
        }
        for t in report.targets[:MOST_SHOWN]
    ]
    print_rows("Slow OSTs", rows)
    _print_more(len(report.targets))


def _print_contentions(report: WatchReport) -> None:
    contentions = report.contentions
    if contentions.since is not None:
        typer.echo(f"Too many runs overlap: only pairs from {format_time(contentions.since)} on are compared.")
    if contentions.because:
        typer.echo(f"Jobs in each other's way: unknown, because {contentions.because}.")
        return
    if not contentions.pairs:
        pairs = plural(contentions.tested, "pair")
        typer.echo(f"No jobs slowed each other down on shared OSTs ({pairs} compared).")
        return
    rows = [
        {
            "run": _name_run(c.first),
            "and run": _name_run(c.second),
            "file system": mount_name(c.filesystem),
            "OSTs": _name_osts(c.osts),
            "together from": format_time(c.start_time),
            "for": format_duration(c.overlap_seconds),
            "sure": f"{c.certainty} (chance {_format_chance(c.chance)})",
        }
        for c in contentions.pairs[:MOST_SHOWN]
    ]
    print_rows("Jobs that slowed each other down on shared OSTs", rows)
    _print_more(len(contentions.pairs))


def _print_losses(report: WatchReport) -> None:
    losses = report.losses
    share = losses.lost_hours / losses.hours if losses.hours else 0.0
    typer.echo(f"I/O took {losses.lost_hours:,.1f} of {losses.hours:,.1f} {losses.unit} ({100 * share:.1f} %).")
    for what, most in (("user", losses.users), ("application", losses.apps)):
        rows = [_loss_row(what, loss) for loss in most[:MOST_SHOWN] if loss.lost_hours > 0]
        if rows:
            print_rows(f"Most {losses.unit} in I/O, by {what}", rows)
    rows = [
        {
            "application": printable(r.app),
            "finding": r.code,
            "runs": r.runs,
            "in I/O": f"{r.lost_hours:,.1f}",
            "predicted to save": f"{r.gain_hours:,.1f}",
            "explained by": f"forebay diagnose {r.latest_run}",
        }
        for r in losses.remedies[:MOST_SHOWN]
    ]
    if rows:
        print_rows(f"What would save most {losses.unit}", rows)
    elif not losses.diagnosed:
        typer.echo("What would save most is unknown: no run of the period has findings in the history.")


def _loss_row(what: str, loss: Loss) -> dict[str, object]:
    return {
        what: printable(loss.name),
        "runs": loss.runs,
        "all": f"{loss.hours:,.1f}",
        "in I/O": f"{loss.lost_hours:,.1f}",
        "remedies save": f"{loss.gain_hours:,.1f}",
    }


def _print_more(count: int) -> None:
    if count > MOST_SHOWN:
        typer.echo(f"... and {count - MOST_SHOWN} more (--json lists all)")


def _format_chance(chance: float) -> str:
    return "<0.1 %" if chance < 0.001 else f"{100 * chance:.1f} %"


def _name_run(run: PairedRun) -> str:
    slower = "" if run.slowdown is None else f", {run.slowdown:.1f} times its usual"
    return f"{run.run} ({printable(run.app)}{slower})"


def _name_osts(osts: Sequence[int]) -> str:
    return ", ".join(map(str, osts[:5])) + (f" and {len(osts) - 5} more" if len(osts) > 5 else "")


def format_mail(report: WatchReport) -> str:
    """A mail about what began in the period, with its subject; "" if nothing did."""
    if not report.has_news:
        return ""
    slower = [r for r in report.regressions.all if r.is_news]
    targets = [t for t in report.targets if t.is_new]
    pairs = [pair for pair in report.contentions.pairs if pair.is_likely]
    subject = [
        *([f"{plural(len({(r.app, r.user) for r in slower}), 'application')} slower"] if slower else []),
        *([plural(len(targets), "slow OST")] if targets else []),
        *([f"{plural(len(pairs), 'pair')} of jobs in each other's way"] if pairs else []),
    ]
    period = f"From {format_time(report.since)} to {format_time(report.until)}, {plural(report.runs, 'run')} started."
    parts = [_fill(period)]
    parts += [_fill(describe_slow_filesystem(mount)) for mount in report.regressions.slow_filesystems]
    for items in ([*map(_mail_regression, slower)], [*map(_mail_target, targets)], [*map(_mail_pair, pairs)]):
        parts += [_fill(text, "- ") for text in items[:MOST_SHOWN]]
        if len(items) > MOST_SHOWN:
            parts.append(f"... and {len(items) - MOST_SHOWN} more")
    if report.losses.remedies:
        best = report.losses.remedies[0]
        parts.append(
            _fill(
                f"The most to save: {best.code} in {printable(best.app)}, {best.gain_hours:,.1f} {report.losses.unit} "
                f"(forebay diagnose {best.latest_run})."
            )
        )
    parts.append("Everything: forebay history watch")
    return f"Subject: [forebay] {', '.join(subject)}\n\n" + "\n\n".join(parts) + "\n"


def _mail_regression(r: Regression) -> str:
    whose = f" of {printable(r.user)}" if r.user else ""
    layout = describe_layouts(r)
    cause = f" Its layout changed: {layout}." if layout else ""
    return (
        f"{printable(r.app)}{whose} with {plural(r.nprocs, 'process')} on {mount_name(r.filesystem)} needs "
        f"{r.slowdown:.1f} times the I/O seconds per byte since run {r.first_bad_run} "
        f"({format_time(r.first_bad_time)}): {plural(r.runs_after, 'run')} against {r.runs_before} before, "
        f"chance {_format_chance(r.chance)}.{cause} See: forebay history show {r.first_bad_run}; "
        f"forebay diagnose {r.last_run}."
    )


def _mail_target(t: SlowTarget) -> str:
    since = f" since {format_time(t.first_bad_time)}" if t.first_bad_time is not None else ""
    return (
        f"OST {t.ost} of {mount_name(t.filesystem)} is slow{since}: {t.because}. "
        "Check its server and disks, and keep new files off it (lctl set_param osp.*.max_create_count=0 on the MDS)."
    )


def _mail_pair(c: Contention) -> str:
    what = "slowed each other down" if c.both_slow else "got in each other's way"
    return (
        f"Runs {_name_run(c.first)} and {_name_run(c.second)} {what}, {c.certainty} "
        f"(chance {_format_chance(c.chance)}): both used OST {_name_osts(c.osts)} of {mount_name(c.filesystem)} for "
        f"{format_duration(c.overlap_seconds)} from {format_time(c.start_time)} on. Let Forebay place them "
        "(forebay advise --job), or run them apart."
    )


def _fill(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
