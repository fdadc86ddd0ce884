"""Ask policies what to do, and take no refusal."""

from __future__ import annotations

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.schedule import schedule
from forebay.decide.view import View
from forebay.model.application import Application
from forebay.model.decision import Never, Placement
from forebay.model.errors import Refused
from forebay.model.system import System
from forebay.simulate.run import judge


def decided(
    system: System,
    seen: tuple[Application, ...],
    allocate: Policy,
    place: Policy,
    *,
    rng: np.random.Generator,
    horizon: float,
) -> Placement:
    """The placement that the policies decide for these applications; `horizon` is for those that simulate."""
    trial = judge(system, seen, horizon=horizon) if allocate.simulates else None
    answer = schedule(View(system, seen, rng=rng, judge=trial), allocate, place)
    if isinstance(answer, Never):
        raise Refused(f"{allocate.name}: {answer.because}")
    return answer
