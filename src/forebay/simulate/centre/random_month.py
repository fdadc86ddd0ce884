"""Draws a month of jobs: recurring applications, and the start of each of their jobs."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from forebay.model.kernels import Array, kernel
from forebay.simulate.centre.engine import JOB
from forebay.simulate.centre.layouts import Laid, alone, record
from forebay.simulate.centre.machine import Centre
from forebay.simulate.centre.workload import Kind, Style, Workload

_CELL = 600.0  # seconds: the grid for packing jobs
_HOUR = 3600.0
_SLACK = 1.1  # factor on the run time, as I/O takes longer than alone


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application of a kind: it always runs on `nodes` nodes and spends `share` of its time in I/O.

    The share holds alone and with the users' layout, `laid`. `wrong` are the errors of its profile as factors: volume,
    compute time, bandwidth.
    """

    kind: int
    style: Style
    nodes: int
    share: float
    laid: Laid
    wrong: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The applications, and the jobs (JOB) with application and start in seconds."""

    apps: tuple[App, ...]
    jobs: NDArray[np.void]
    app: NDArray[np.int64]
    start: NDArray[np.float64]

    @property
    def kind(self) -> NDArray[np.int64]:
        return np.array([app.kind for app in self.apps])[self.app]


def draw_month(centre: Centre, workload: Workload, rng: Generator) -> Drawn:
    """Draw a month; the same generator state gives the same month."""
    apps: list[App] = []
    jobs, owners, hours = [], [], []
    for number, kind in enumerate(workload.kind):
        drawn = [_app(centre, workload, number, kind, rng) for _ in range(kind.applications)]
        who, lasts = _runs(centre, workload, kind, drawn, rng)
        jobs.append(np.array([_job(centre, workload, drawn[w], kind, h) for w, h in zip(who, lasts, strict=True)], JOB))
        owners.append(len(apps) + who)
        hours.append(lasts)
        apps += drawn
    every, lasts = np.concatenate(jobs), np.concatenate(hours)
    start = _pack_jobs(every["nodes"], lasts * _HOUR, centre.compute.nodes, workload.month.days * 86_400, rng)
    return Drawn(apps=tuple(apps), jobs=every, app=np.concatenate(owners), start=start)


def _app(centre: Centre, workload: Workload, number: int, kind: Kind, rng: Generator) -> App:
    low, high = np.log(kind.nodes[0]), np.log(min(kind.nodes[1], centre.compute.nodes) + 1)
    shares = np.array(list(kind.styles.values()))
    name = list(kind.styles)[int(np.searchsorted(np.cumsum(shares / shares.sum()), rng.random(), side="right"))]
    style = next(style for style in workload.style if style.name == name)
    by_hand = rng.random() < workload.io.by_hand and style.shared and kind.decided
    io = workload.io
    # Each factor has mean 1 and one normal variable, so that more noise scales the same errors.
    sigma = np.sqrt(np.log1p(workload.profiles.noise**2))
    wrong = np.exp(sigma * rng.standard_normal(3) - sigma**2 / 2)
    return App(
        kind=number,
        style=style,
        nodes=int(min(np.exp(rng.uniform(low, high)), centre.compute.nodes)),
        share=float(min(io.median * np.exp(io.spread * rng.standard_normal()), 0.5)),
        laid=Laid.of(centre.layout.by_hand if by_hand else centre.layout.default),
        wrong=tuple(wrong.tolist()),
    )


def _runs(centre: Centre, workload: Workload, kind: Kind, apps: list[App], rng: Generator) -> tuple[Array, Array]:
    """Draw the application and hours of each job up to the kind's node-hours; the first application is commonest."""
    month = workload.month
    wanted = kind.share * month.utilisation * centre.compute.nodes * month.days * 24
    popular = 1 / np.arange(1, len(apps) + 1)
    nodes = np.array([app.nodes for app in apps])
    who: list[Array] = []
    hours: list[Array] = []
    while wanted > 0:
        some = rng.choice(len(apps), size=64, p=popular / popular.sum())
        lasts = np.minimum(kind.hours * np.exp(kind.sigma * rng.standard_normal(64)), kind.most)
        done = np.cumsum(nodes[some] * lasts)
        enough = int(np.searchsorted(done, wanted)) + 1
        who.append(some[:enough])
        hours.append(lasts[:enough])
        wanted -= done[-1]
    return np.concatenate(who or [np.zeros(0, int)]), np.concatenate(hours or [np.zeros(0)])


def _job(centre: Centre, workload: Workload, app: App, kind: Kind, hours: float) -> Array:
    """Return a job whose I/O takes the application's share of the time, unless memory limits its phases."""
    job = np.zeros((), dtype=JOB)
    seconds = hours * _HOUR
    phases = max(1, round(seconds / kind.every))
    most = workload.io.memory * centre.compute.memory * app.nodes
    job["nodes"], job["phases"], job["decided"] = app.nodes, phases, kind.decided
    job["reads"] = reads = app.style.operation == "read"
    job["compute"] = seconds * (1 - app.share) / phases
    volume = most  # the layout, and so the speed, may depend on the volume; a few steps converge
    for _ in range(8):
        layout = record(centre, app.style, app.nodes, app.laid, volume, reads=reads)
        last = volume
        volume = min(most, app.share * seconds / phases * float(alone(layout, volume, centre.targets)))
        if volume == last:
            break
    job["volume"], job["input"] = volume, workload.io.input * volume
    return job


def _pack_jobs(nodes: Array, seconds: Array, available: int, length: float, rng: Generator) -> Array:
    """Return when each job starts: at a random time, or as soon as nodes are free; the largest jobs choose first."""
    cells = int(length // _CELL) + 1
    used = np.zeros(4 * cells, dtype=np.int64)
    wished = rng.integers(cells, size=nodes.size)
    lasts = np.ceil(seconds * _SLACK / _CELL + 0.5).astype(np.int64)  # a job begins within the first half of a cell
    start = np.zeros(nodes.size)
    for j in np.lexsort((np.arange(nodes.size), -nodes)):
        start[j] = _fit(used, wished[j], lasts[j], nodes[j], available, cells) * _CELL
    return start + rng.random(nodes.size) * (_CELL / 2)


@kernel
def _fit(used: Array, wished: int, lasts: int, nodes: int, available: int, cells: int) -> int:
    """Reserve the first cells with room from `wished` on, around the month's end, or after it. Return the first."""
    chosen = -1
    for turn in range(2):
        begin, end = (wished, cells) if turn == 0 else (0, used.size - lasts)
        at, free = begin, 0
        while chosen < 0 and at < end + (lasts if turn == 0 else 0):
            free = free + 1 if used[at] + nodes <= available else 0
            at += 1
            if free == lasts:
                chosen = at - lasts
    for cell in range(chosen, chosen + lasts):
        used[cell] += nodes
    return chosen
