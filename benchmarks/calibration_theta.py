"""Predicted against measured I/O seconds on a production machine: 57 jobs of Theta, 22 to 28 January 2022.

The model is fitted to the earlier half of the jobs and predicts the later half; the peer is bytes divided by one
bandwidth for reads and one for writes, fitted to the same jobs. Both know bytes and processes, and nothing measured.
The ratio compares how far the medians of the factors by which they are off are from 1: 0.75 or less is the goal. To see
how much the split decides, the same is done with random halves, and resampled jobs show what so few of them can prove.
"""

import argparse
from pathlib import Path

import numpy as np
from bench import SEED, verdict

from forebay.history.run_fields import Measured
from forebay.history.traces.fives import read
from forebay.model.arrays import Floats
from forebay.profile.calibration.check import check_calibration, correlate_ranks, find_factors, fit_bandwidth
from forebay.profile.calibration.fit import fit_parameters
from forebay.profile.calibration.prediction import is_usable, predict_seconds

WEEK = Path(__file__).resolve().parents[2] / "shared" / "data" / "theta" / "week4-2022.yaml.gz"
GOAL, HALVES, DRAWS = 0.75, 100, 2000
WHAT = ("reads", "writes", "both")
Factors = list[tuple[Floats, Floats]]
"""For reads, writes and both: those of the model, and those of one bandwidth."""


def find_errors(fitted: Measured, checked: Measured) -> Factors:
    parameters = fit_parameters(fitted)
    errors: Factors = []
    for side in (0, 1):
        runs = checked[is_usable(checked, side)]
        measured = runs["seconds"][:, side]
        alike = runs["bytes"][:, side] / fit_bandwidth(fitted[is_usable(fitted, side)], side)
        errors.append((find_factors(predict_seconds(runs, side, parameters), measured), find_factors(alike, measured)))
    (read, read_peer), (written, written_peer) = errors
    return [*errors, (np.concatenate((read, written)), np.concatenate((read_peer, written_peer)))]


def ratio(model: Floats, peer: Floats) -> float:
    return float((np.median(model) - 1) / (np.median(peer) - 1))


def resample(model: Floats, peer: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """Between which the ratio lies with a probability of 90 %, as far as the checked jobs can tell."""
    chosen = rng.integers(model.size, size=(DRAWS, model.size))
    excess = np.median(model[chosen], axis=1) - 1, np.median(peer[chosen], axis=1) - 1
    low, high = np.quantile(excess[0] / np.maximum(excess[1], 1e-9), (0.05, 0.95))
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=WEEK)
    path: Path = parser.parse_args().file
    if not path.exists():
        print(f"calibration: {path} is missing; name a file of the Fives simulator")
        return
    runs, rng = read(path), np.random.default_rng(SEED)
    check = check_calibration(runs, str(path))
    every = np.concatenate((check.earlier, check.later))
    print(f"{check.earlier.size} jobs fitted, {check.later.size} later ones checked; median factors (90th percentiles)")
    for side, (what, (model, peer)) in enumerate(zip(WHAT, find_errors(check.earlier, check.later), strict=True)):
        rank = ""
        if side < 2:
            later = check.later[is_usable(check.later, side)]
            found = correlate_ranks(predict_seconds(later, side, check.parameters), later["seconds"][:, side])
            volume = correlate_ranks(later["bytes"][:, side].astype(float), later["seconds"][:, side])
            rank = f"; rank correlation {found:.2f}, of bytes alone {volume:.2f}"
        reached, (low, high) = ratio(model, peer), resample(model, peer, rng)
        factors = [f"{np.median(found):.2f} ({np.quantile(found, 0.9):.2f})" for found in (model, peer)]
        print(
            f"{what:7} model {factors[0]}, one bandwidth {factors[1]}, ratio {reached:.2f} "
            f"(90 % sure: {low:.2f} to {high:.2f}): {verdict(reached <= GOAL)}{rank}"
        )
    halves = [rng.permutation(every.size) for _ in range(HALVES)]
    middle = every.size // 2
    ratios = np.array(
        [[ratio(*pair) for pair in find_errors(every[order[:middle]], every[order[middle:]])] for order in halves]
    )
    for what, column in zip(WHAT, ratios.T, strict=True):
        low, middle_ratio, high = np.quantile(column, (0.1, 0.5, 0.9))
        print(
            f"{HALVES} random halves, {what}: ratio {middle_ratio:.2f} (median), {low:.2f} to {high:.2f} (8 of 10), "
            f"{np.mean(column <= GOAL):.0%} at most {GOAL}, {np.mean(column < 1):.0%} better"
        )


if __name__ == "__main__":
    main()
