"""Bez et al. 2019, section 6.1: tuners learn the best window from observations with each window.

Detection is perfect. A tuner chooses a window, and its reward is that of a random period observed with this window.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.tune.bandit import learn
from forebay.decide.tune.reward import inherit
from forebay.decide.tune.tuners import OTHER, bandit_for, choose, number, pick
from forebay.model.kernels import Array, kernel
from forebay.model.random_numbers import draw, mix_bits, seed_state
from forebay.model.situation import Situation
from forebay.simulate.requests.workload import Experiment

_CLIENTS = 32
BIN = 10
LEARNED = np.dtype(
    [
        ("tuner", "U80"),
        ("similar", "?"),  # whether it inherits from similar situations
        ("together", "?"),  # whether several situations took turns
        ("experiment", "i4"),
        ("bin", "i4"),  # of BIN steps, from 0 on
        ("precision", "f8"),  # share of steps with the best window
        ("share", "f8"),  # mean bandwidth of the chosen windows, relative to the best
        ("regret", "f8"),  # total loss up to the end of the bin, in steps of the best window
    ]
)
"""Means over repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Rewards by experiment, window and sample, of which `counts` are valid, and their means."""

    rewards: Array
    counts: Array
    means: Array

    @classmethod
    def of(cls, lists: Sequence[Sequence[Array]]) -> Samples:
        counts = np.array([[len(values) for values in row] for row in lists], dtype=np.int64)
        rewards = np.zeros((*counts.shape, counts.max(initial=1)))
        for e, row in enumerate(lists):
            for w, values in enumerate(row):
                rewards[e, w, : len(values)] = values
        return cls(rewards=rewards, counts=counts, means=rewards.sum(axis=2) / counts)

    def select(self, experiments: Array) -> Samples:
        """Return the samples of some experiments, by their places."""
        return Samples(
            rewards=self.rewards[experiments], counts=self.counts[experiments], means=self.means[experiments]
        )


def learn_all(
    samples: Samples,
    experiments: Sequence[Experiment],
    spec: str,
    *,
    similar: bool,
    steps: int,
    repetitions: int,
    seed: int,
) -> NDArray[np.void]:
    """Return LEARNED rows of every experiment alone; with `similar`, each inherits from those before it."""
    policy = find("tune", spec)
    arms = np.zeros((len(experiments), repetitions, steps), dtype=np.int64)
    for repetition in range(repetitions):
        # The situations of the paper do not include the request size, so each size learns separately.
        for request in sorted({e.workload.request for e in experiments}):
            same = [i for i, e in enumerate(experiments) if e.workload.request == request]
            known: dict[Situation, Array] = {}
            for i in np.random.default_rng([seed, repetition]).permutation(same):
                bandit = bandit_for(policy, samples.counts.shape[1], ordered=True)
                situation = situation_of(experiments[i])
                if similar:
                    inherit(bandit[np.newaxis], situation, known)
                chance = seed_state(_seed(seed, f"{spec} {i} {repetition}"))
                arms[i, repetition] = _alone(policy, bandit, samples, int(i), steps, chance)
                known[situation] = bandit[np.newaxis]
    hits = [(picks == means.argmax()).astype(np.float64) for picks, means in zip(arms, samples.means, strict=False)]
    shares = [means[picks] / means.max() for picks, means in zip(arms, samples.means, strict=False)]
    return _rows(spec, similar, False, range(len(experiments)), hits, shares)


def learn_together(
    samples: Samples, which: Sequence[int], spec: str, *, steps: int, repetitions: int, seed: int
) -> NDArray[np.void]:
    """Return LEARNED rows of experiments that are active in random turns; `steps` is the total for all."""
    policy = find("tune", spec)
    shares = np.full((len(which), repetitions, steps), np.nan)
    hits = shares.copy()
    for repetition in range(repetitions):
        bandits = [bandit_for(policy, samples.counts.shape[1], ordered=True) for _ in which]
        chance = seed_state(_seed(seed, f"{spec} together {repetition}"))
        for step in range(steps):
            k = int(draw(chance, len(which)))
            [arm] = _alone(policy, bandits[k], samples, which[k], 1, chance)
            means = samples.means[which[k]]
            shares[k, repetition, step], hits[k, repetition, step] = means[arm] / means.max(), arm == means.argmax()
    return _rows(spec, False, True, which, hits, shares)


def situation_of(experiment: Experiment) -> Situation:
    """Return the situation of an experiment as a council sees it."""
    w = experiment.workload
    return Situation(
        operation=w.operation,
        pattern=w.pattern,
        servers=4,
        io_nodes=experiment.nodes,
        clients=_CLIENTS // experiment.nodes,
        processes=w.processes // experiment.nodes,
    )


def _alone(policy: Policy, bandit: Array, samples: Samples, e: int, steps: int, chance: Array) -> Array:
    """Return the windows that the tuner chooses; `bandit` learns."""
    if number(policy) != OTHER:
        return _steps(number(policy), bandit, samples.rewards[e], samples.counts[e], steps, chance)
    arms = []
    for _ in range(steps):
        arms.append(pick(policy, bandit, chance))
        learn(bandit, arms[-1], samples.rewards[e, arms[-1], draw(chance, samples.counts[e, arms[-1]])])
    return np.array(arms)


@kernel
def _steps(tuner: int, bandit: Array, rewards: Array, counts: Array, steps: int, chance: Array) -> Array:
    arms = np.empty(steps, dtype=np.int64)
    for step in range(steps):
        arm = choose(tuner, bandit, chance)
        learn(bandit, arm, rewards[arm, draw(chance, counts[arm])])
        arms[step] = arm
    return arms


def _rows(
    spec: str, similar: bool, together: bool, which: Sequence[int], hits: Array, shares: Array
) -> NDArray[np.void]:
    """Compute precision, share and regret of each bin; steps of other experiments (nan) are left out."""
    rows = []
    for k, experiment in enumerate(which):
        for b in range(shares[k].shape[1] // BIN):
            steps = slice(b * BIN, (b + 1) * BIN)
            lost = float(np.nansum(1 - shares[k][:, : steps.stop], axis=1).mean())
            precision = share = np.nan
            if not np.isnan(shares[k][:, steps]).all():
                precision, share = float(np.nanmean(hits[k][:, steps])), float(np.nanmean(shares[k][:, steps]))
            rows.append((spec, similar, together, experiment, b, precision, share, lost))
    return np.array(rows, dtype=LEARNED)


def _seed(seed: int, purpose: str) -> int:
    return int(mix_bits(np.uint64(seed + zlib.crc32(purpose.encode()))))
