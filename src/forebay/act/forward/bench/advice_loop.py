"""The whole loop on a real layer: a program runs, the history records it, and the advisor changes the layout."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forebay.act.advice import Advice, JobRequest, advise
from forebay.act.filesystems.filesystem import FittedLayout
from forebay.act.filesystems.forebay_mount import ForebayMount
from forebay.act.forward.bench.client_processes import LayerAccess, Measurement, Task, run_task
from forebay.act.forward.bench.rounds import empty_folder, prepare, round_task, temporary_folder
from forebay.act.forward.clients.channel import identify
from forebay.decide.policy import Policy
from forebay.history.store import Store
from forebay.history.store.past_runs import list_past_runs
from forebay.model.errors import ForebayError
from forebay.model.layout import Layout, Target
from forebay.model.past_runs import Past

_PATIENCE = 30.0


class NotInHistory(ForebayError):
    """The history does not contain a run that used the layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of the program; `known` is its entry in the history."""

    number: int
    measured: tuple[Measurement, ...]
    known: Past
    advice: Advice

    @property
    def bandwidth(self) -> float:
        """Bytes per second over all operations."""
        return sum(m.bytes for m in self.measured) / sum(m.seconds for m in self.measured)


@dataclass(frozen=True, kw_only=True)
class Unmounted(ForebayMount):
    """A layer of `max_count` servers that is not mounted; its client sets the layouts."""

    access: LayerAccess

    def fit(self, layout: Layout) -> FittedLayout:
        return FittedLayout(layout=replace(layout, count=min(layout.count, self.max_count)))

    def layout(self, folder: Path) -> Layout:
        with self.access.client() as client:
            return client.layout(folder)

    def apply(self, layout: Layout, folder: Path, targets: Sequence[Target] | None = None) -> FittedLayout:  # noqa: ARG002
        fitted = self.fit(layout)
        with self.access.client() as client:
            client.set_layout(folder, fitted.layout)
        return fitted


def run_loop(
    task: Task, access: LayerAccess, store: Store, policy: Policy, *, app: str, servers: int, runs: int
) -> Iterator[Step]:
    """Run the task `runs` times as the program `app`, each time with the layout that the policy advises."""
    chances, processes = random.Random(task.seed), task.workload.processes
    with temporary_folder(replace(access, folder=f"/{app}")) as place:
        prepare(task, replace(place, who=identify(f"{app} (first use)")))
        files = Unmounted(access=place, known_targets=servers, max_count=servers)
        for number in range(1, runs + 1):
            job = JobRequest(app=app, nprocs=processes, now=time.time(), chance=chances.random())
            advice = advise(store, job, policy, files, files.targets(), apply_to=Path(place.folder))
            running = replace(place, who=identify(app, str(number), processes))
            measured = tuple(run_task(replace(round_task(task, number), name=f"run{number}"), running))
            known = _wait_for_run(store, app, number, sum(m.bytes for m in measured))
            empty_folder(place)  # the next run creates its files with its own layout
            yield Step(number=number, advice=advice, measured=measured, known=known)


def _wait_for_run(store: Store, app: str, number: int, moved: int) -> Past:
    """Wait until the history has the whole run: I/O nodes report a job when its last process has left."""
    end = time.monotonic() + _PATIENCE
    while True:
        with store.open_reader() as connection:
            runs = list_past_runs(connection, app, 100_000)
        if len(runs) >= number and runs[-1].io_bytes >= moved:
            return runs[-1]
        if time.monotonic() > end:
            raise NotInHistory(f"{app}: run {number} is not in the history after {_PATIENCE:g} s; see messages above")
        time.sleep(0.05)
