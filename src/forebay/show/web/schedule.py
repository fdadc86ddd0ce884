"""The page's view of the planner: which of Slurm's jobs run, which start when, and why the others wait."""

import json
import time
from pathlib import Path

from forebay.model.errors import why
from forebay.model.units import format_duration
from forebay.show.output import Document

_MOST = 500
"""The most jobs of each list that are shown."""
_MISSED = 3  # plans after which the planner is considered gone
_NONE = (
    "No planner is configured. Run `forebay schedule --config FILE` beside slurmctld, and under [service] in the "
    "service's file, set schedule to the plan.json in the planner's folder."
)


def read_plan(path: Path | None) -> Document:
    """The view; `none` says why it is empty, and `trouble` that the planner has stopped planning."""
    if path is None:
        return {"none": _NONE}
    try:
        plan: Document = json.loads(path.read_text(encoding="utf-8"))
        age = time.time() - plan["at"]
        for name in ("running", "planned", "others"):
            plan[name] = plan[name][:_MOST]
        interval = float(plan["interval"])
    except FileNotFoundError:
        return {"none": f"{path} does not exist yet; is `forebay schedule` running?"}
    except OSError as error:
        return {"none": f"{path}: {why(error)}"}
    except (ValueError, KeyError, TypeError):
        return {"none": f"{path} is not a plan; name the plan.json of the planner's folder"}
    trouble = ""
    if age > _MISSED * interval + 60:
        trouble = f"The last plan is {format_duration(round(age))} old: the planner has ended, and Slurm decides alone."
    return {**plan, "age": age, "trouble": trouble}
