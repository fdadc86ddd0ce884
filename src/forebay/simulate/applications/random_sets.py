"""Sets of applications drawn as in Bandet et al. 2024, section V-C."""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import brentq

from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.errors import BadInput
from forebay.model.system import System

PAPER_SYSTEM = System(targets=20, compute_nodes=480)
PAPER_APPLICATIONS = 60
ALONE_SECONDS = 5000.0  # computing and I/O on one target, together

# (share of the applications, share of the compute nodes): large, medium, small
_SIZES = ((0.10, 0.75), (0.30, 0.20), (0.60, 0.05))


def draw(
    system: System, curves: Mapping[str, Curve], *, applications: int, load: float, rng: np.random.Generator
) -> tuple[Application, ...]:
    """Draw applications with expected I/O-load `load` if each has one target; other properties are uniform."""
    names = list(curves)
    bound = _ratio_bound(load * system.targets / applications)
    nodes = rng.permutation(_compute_nodes(applications, system.compute_nodes))
    drawn = []
    for index in range(applications):
        name = names[rng.integers(len(names))]
        phases = int(rng.integers(2, 21))
        io_share = 1.0 / (1.0 + rng.uniform(0.0, bound))
        drawn.append(
            Application(
                name=f"{index}:{name}",
                compute_nodes=float(nodes[index]),
                phases=phases,
                compute_seconds=ALONE_SECONDS * (1.0 - io_share),
                volume=ALONE_SECONDS * curves[name].at(1) * io_share,
                curve=curves[name],
            )
        )
    return tuple(drawn)


def _ratio_bound(stress: float) -> float:
    """Solve log(1 + b) = b * stress for b > 0: then E[1 / (1 + X)] = stress for X uniform in [0, b]."""
    if not 0 < stress < 1:
        raise BadInput("load", f"needs {stress:.3g} targets per application on average; this must be between 0 and 1")
    most = 2.0
    while np.log1p(most) > most * stress:
        most *= 2
    # Below the root the difference is positive; near stress 1 the root is about 2 (1 - stress).
    return float(brentq(lambda b: np.log1p(b) - b * stress, 1 - stress, most, xtol=1e-300, rtol=1e-14))


def _compute_nodes(applications: int, available: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return each application's compute nodes. They are fractions: 36 small applications share 24 nodes."""
    edges = np.rint(np.cumsum([0.0] + [share for share, _ in _SIZES]) * applications).astype(int)
    sizes = np.diff(edges).tolist()
    used = sum(nodes for size, (_, nodes) in zip(sizes, _SIZES, strict=True) if size)
    return np.concatenate(
        [np.full(n, available * nodes / used / n) for n, (_, nodes) in zip(sizes, _SIZES, strict=True) if n]
    )
