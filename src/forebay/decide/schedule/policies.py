"""The built-in scheduling policies, and one kernel that dispatches to them."""

from forebay.decide.policy import Policy, scheduler
from forebay.decide.schedule.backfill import easy, fcfs, fcfs_bb, filler, sjf_bb
from forebay.decide.schedule.conservative import conservative_bb
from forebay.decide.schedule.forebay import forebay
from forebay.decide.schedule.plan import plan
from forebay.decide.schedule.slurm import slurm
from forebay.decide.schedule.window import window
from forebay.model.kernels import Array, hot_kernel

_KOPANSKI = "Kopanski and Rzadca 2021"

SCHEDULES = (
    scheduler("fcfs", source="textbook")(fcfs),
    scheduler("filler", source=_KOPANSKI, patient=False)(filler),
    scheduler("easy", source="Lifka 1995")(easy),
    scheduler("fcfs-bb", source=_KOPANSKI)(fcfs_bb),
    scheduler("sjf-bb", source=_KOPANSKI, patient=False)(sjf_bb),
    scheduler("conservative-bb", source="Mu'alem and Feitelson 2001, with bytes")(conservative_bb),
    scheduler("window", source="Fan et al. 2019, exact")(window),
    scheduler("plan", source=_KOPANSKI, options={"alpha": 1.0}, patient=False, promises=False)(plan),
    scheduler("slurm", source="Slurm 22.05, measured")(slurm),
    scheduler("forebay", source="Forebay", promises=False, foresees=True)(forebay),
)
OTHER = -1  # a policy of another package: the caller calls it


def number(policy: Policy) -> int:
    """Return the policy's number for `choose`, whatever its options are."""
    return next((k for k, built_in in enumerate(SCHEDULES) if built_in.decide is policy.decide), OTHER)


# Numba cannot cache a function that takes another function as an argument, so policies have numbers.
@hot_kernel
def choose(policy: int, view: Array, memory: Array, starts: Array) -> None:
    """Call SCHEDULES[policy]."""
    if policy == 0:
        fcfs(view, memory, starts)
    elif policy == 1:
        filler(view, memory, starts)
    elif policy == 2:
        easy(view, memory, starts)
    elif policy == 3:
        fcfs_bb(view, memory, starts)
    elif policy == 4:
        sjf_bb(view, memory, starts)
    elif policy == 5:
        conservative_bb(view, memory, starts)
    elif policy == 6:
        window(view, memory, starts)
    elif policy == 7:
        plan(view, memory, starts)
    elif policy == 8:
        slurm(view, memory, starts)
    elif policy == 9:
        forebay(view, memory, starts)
