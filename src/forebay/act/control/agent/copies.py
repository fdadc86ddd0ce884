"""Carries out the copies of stagings: a process for each, which is started again if it is killed."""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from forebay.act.command import Child
from forebay.act.control.api.forms import CopyForm
from forebay.act.control.documents import CopyDocument
from forebay.act.files import open_secret, write_file
from forebay.act.staging.process import Plan, Work
from forebay.decide.grants.machine import CopyAction
from forebay.model.errors import ForebayError, name_errors

_FAILURES = 5  # of a process in a row without any progress, before the staging fails
_SOONEST, _LATEST = 0.5, 10.0  # seconds before a restart: they double each time
_OFTEN, _SELDOM = 1.0, 30.0  # seconds between reports: the longer it runs, the fewer
_SHARE = 0.05  # of the time that it runs, between reports
_TIMELY = 0.25  # of the limit, between reports: the service must not believe that nothing moves
_GRACE = 3.0
_LATER = 5.0  # seconds after which the space has been removed, if it is being released
Say = Callable[[str, str, str], None]
"""Gets the level of a line, the line, and the grant."""
Report = Callable[[CopyForm], None]


class Copies:
    """Runs the copies that the service lists, and ends those that it does not list any more.

    `folder` has a plan and a journal of each, from which the next agent goes on. `find_volume` gives a volume's path.
    """

    def __init__(self, folder: Path, find_volume: Callable[[str], str], report: Report, say: Say) -> None:
        self._folder, self._find_volume, self._report, self._say = folder, find_volume, report, say
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        return any(not run.is_abandoned for run in self._runs.values())

    def follow(self, documents: Sequence[CopyDocument]) -> None:
        """Start what is new, end what is no longer listed, and settle where all nodes have copied."""
        actions = {_name_of(action): action for action in map(CopyAction.read, documents)}
        with self._lock:
            if self._is_closed:
                return
            for name, run in list(self._runs.items()):
                if name not in actions and not run.is_abandoned:
                    run.abandon()
                elif run.is_gone:
                    del self._runs[name]
            for name in {file.stem for file in self._folder.glob("*.plan")} - self._runs.keys() - actions.keys():
                self._abandon_left(name)
            for name, action in actions.items():
                if name not in self._runs:
                    self._start(name, action)
                elif action.settle:
                    self._runs[name].settle()

    def close(self) -> None:
        """End all processes; the next agent goes on."""
        with self._lock:
            self._is_closed = True
            for run in self._runs.values():
                run.stop()

    def _start(self, name: str, action: CopyAction, *, is_abandoned: bool = False) -> None:
        run = self._runs[name] = _Run(self._folder / name, action, self._find_volume, self._report, self._say)
        if is_abandoned:
            run.abandon()
        run.start()

    def _abandon_left(self, name: str) -> None:
        """Remove what an earlier agent left behind."""
        file = self._folder / f"{name}.plan"
        try:
            action = CopyAction.read(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            file.unlink(missing_ok=True)
            return
        self._start(name, action, is_abandoned=True)


class _Run:
    """One copy, in a thread: the kernel ends a process whose thread has ended."""

    def __init__(
        self, path: Path, action: CopyAction, find_volume: Callable[[str], str], report: Report, say: Say
    ) -> None:
        self._plan, self._journal = path.with_suffix(".plan"), path.with_suffix(".journal")
        self._action, self._find_volume, self._send, self._say = action, find_volume, report, say
        self.is_abandoned = self.is_gone = False
        self._settles, self._others = action.settle, -1
        self._is_wanted = True
        self._changed = threading.Condition()
        self._child: Child | None = None
        self._progress = CopyForm(grant=action.grant, key=action.key, step="copying")
        self._reported, self._began = 0.0, time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"copy {path.name[:8]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the process; its journal stays."""
        self._end()
        self._thread.join(_GRACE)

    def settle(self) -> None:
        """Let the process settle: all nodes have copied their files."""
        with self._changed:
            if not self._settles:
                self._settles = True
                if self._others >= 0:
                    os.write(self._others, b"s")

    def abandon(self) -> None:
        """End the process, and remove incomplete copies and the journal in the background."""
        self.is_abandoned = True
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._is_wanted = False
            child = self._child
            self._changed.notify_all()
        if child is not None:
            child.stop(_GRACE)

    def _run(self) -> None:
        failures, pause, problem = 0, _SOONEST, ""
        while self._is_wanted and failures < _FAILURES:
            before = self._amount()
            problem = self._try_once("copy")
            if not problem or not self._is_wanted:
                break
            failures = 0 if self._amount() != before else failures + 1
            self._say("warning", f"staging {self._action.way}: {problem}; trying again", self._action.grant)
            with self._changed:
                self._changed.wait_for(lambda: not self._is_wanted, pause)
            pause = min(2 * pause, _LATEST)
        if failures == _FAILURES:
            self._tell(CopyForm(**self._progress.model_dump() | {"because": problem}))
        with self._changed:
            self._changed.wait_for(lambda: not self._is_wanted)
        if self.is_abandoned:
            self._clean_up()
            self.is_gone = True

    def _clean_up(self) -> None:
        """Remove incomplete copies. In the space they usually go with it, and must not keep it busy."""
        action = self._action
        if self._progress.step == "copying":
            if action.way == "in":
                time.sleep(_LATER)
            self._try_once("remove")
        for file in (self._journal, self._plan):
            file.unlink(missing_ok=True)

    def _amount(self) -> tuple[int, int]:
        return self._progress.files, self._progress.bytes

    def _try_once(self, work: Work) -> str:
        """Run a process until it ends. Returns why it did not say how it ended; "" if it did."""
        try:
            with self._changed:
                if not self._is_wanted and work != "remove":
                    return ""
                child = self._launch(work)
                self._child = child if work != "remove" else None
        except (ForebayError, OSError) as error:
            return str(error)
        is_over, rest = False, b""
        while piece := os.read(child.out, 65_536):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines if work != "remove" else ():
                is_over = self._note(json.loads(line)) or is_over
        child.wait(_GRACE)
        child.stop(_GRACE)
        with self._changed:
            os.close(self._others)
            self._others = -1
        if is_over or work == "remove":
            return ""
        code = child.code or 0
        return (
            f"the copying process was ended by signal {-code}" if code < 0 else f"the copying process ended with {code}"
        )

    def _launch(self, work: Work) -> Child:
        action = self._action
        names = action.volumes if action.way == "in" or work == "copy" else ()
        mounted = replace(action, settle=self._settles, volumes=tuple(map(self._find_volume, names)))
        plan = Plan(work=work, tag=f"{self._plan.stem[:12]}.forebay", action=mounted)
        with name_errors(self._journal):
            write_file(self._plan, json.dumps(asdict(replace(action, secret=""))), 0o600)
            journal = os.open(self._journal, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            settle, self._others = os.pipe()
            with open_secret(plan.to_text()) as text:
                descriptors = (text, journal, settle)
                command = (sys.executable, "-m", "forebay.act.staging.process", *map(str, descriptors))
                child = Child(command, descriptors=descriptors)
            os.close(settle)
            return child
        finally:
            os.close(journal)

    def _note(self, document: Mapping[str, Any]) -> bool:
        """Report a line of the process, if it is time; returns whether it was the last."""
        form = CopyForm(grant=self._action.grant, key=self._action.key, **document)
        is_last = bool(form.because) or form.step == "settled"
        self._progress, now = form, time.monotonic()
        pause = report_pause(now - self._began, self._action.limit)
        if is_last or form.step == "copied" or now - self._reported >= pause:
            self._tell(form)
        return is_last

    def _tell(self, form: CopyForm) -> None:
        self._reported = time.monotonic()
        self._send(form)


def report_pause(runs: float, limit: float) -> float:
    """Seconds between the reports of a copy that runs for `runs` seconds.

    >>> [report_pause(runs, 600.0) for runs in (2, 100, 3600)], report_pause(3600, 20.0)
    ([1.0, 5.0, 30.0], 5.0)
    """
    return min(_SELDOM, _TIMELY * limit, max(_OFTEN, _SHARE * runs))


def _name_of(action: CopyAction) -> str:
    return hashlib.sha256(f"{action.grant} {action.key}".encode()).hexdigest()[:32]
