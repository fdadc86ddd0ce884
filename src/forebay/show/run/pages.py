"""Puts the page of a run together from its log and from the history, whichever there is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forebay.history.run_fields import Row, WholeRun
from forebay.history.store import Connection
from forebay.model.units import plural
from forebay.profile.findings.diagnosis import Diagnosis
from forebay.profile.overview.run import describe_run
from forebay.show.run.from_history import page_of_history
from forebay.show.run.from_log import page_of_log, row_of_log
from forebay.show.run.page import RunPage
from forebay.show.run.past_runs import describe_change, find_past_runs, show_past_runs

Codes = Mapping[int, Sequence[str]]
"""The codes of the findings of runs, by the run's number."""


def make_log_page(diagnosis: Diagnosis, history: Connection | None) -> RunPage:
    """The page of a log, with the earlier runs of its program if there is a history."""
    assert diagnosis.evidence is not None
    overview = describe_run(diagnosis.evidence)
    if history is None:
        return page_of_log(diagnosis, overview)
    this = row_of_log(overview)
    runs = find_past_runs(history, this["app"], this)
    return _add_change(page_of_log(diagnosis, overview, [show_past_runs(runs)]), runs)


def _add_change(page: RunPage, runs: Sequence[Row]) -> RunPage:
    return replace(page, verdict=[*page.verdict, *describe_change(runs)])


def make_run_page(
    history: Connection, whole: WholeRun, diagnosis: Diagnosis | None, gone: str, codes: Codes | None = None
) -> RunPage:
    """The page of a run of the history. If the diagnosis is not from the log, `gone` says why; `codes` are the findings
    of earlier runs, if these were diagnosed, too."""
    this = whole["run"]
    runs = find_past_runs(history, this["app"], this)
    sections = [show_past_runs(runs, codes)]
    if diagnosis is None or diagnosis.evidence is None:
        return _add_change(page_of_history(whole, diagnosis, gone, sections), runs)
    origin = [f"Run {this['run_id']} of the history."]
    if len(whole["logs"]) > 1:
        origin.append(f"The run has {plural(len(whole['logs']), 'log')}; this page shows the largest.")
    return _add_change(page_of_log(diagnosis, describe_run(diagnosis.evidence), sections, origin), runs)
