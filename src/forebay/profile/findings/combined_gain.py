"""What all remedies of a run bring together.

Their gains do not multiply: two findings can be about the same seconds, and without one limit another is the longest.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.finding import Code, Finding


def predict_combined_gain(evidence: Evidence, findings: Sequence[Finding]) -> float | None:
    """How many times as fast the run's I/O is without any of the findings; None if no finding states a gain."""
    gains = [finding.predicted_gain for finding in findings if finding.predicted_gain is not None]
    if len(findings) < 2 or not gains:
        return gains[0] if gains else None
    reliefs = [finding.relief for finding in findings if finding.relief is not None]
    saved = min(sum(relief.saved for relief in reliefs), evidence.seconds)
    if any(relief.is_about_requests for relief in reliefs):  # several findings can be about the same requests
        others = sum(relief.saved for relief in reliefs if not relief.is_about_requests)
        requests = sum(relief.saved for relief in reliefs if relief.is_about_requests)
        saved = others + min(requests, float((evidence.data_seconds - evidence.ideal_seconds).sum()))
    undone = None
    for relief in reliefs:
        if relief.undone is not None:
            undone = relief.undone if undone is None else undone | relief.undone
    count = max((relief.count for relief in reliefs if relief.count is not None), default=None)
    limits = evidence.find_limits(min(saved, 0.999 * evidence.seconds), undone, count)
    if any(relief.levels for relief in reliefs):
        limits = replace(limits, process=limits.process / max(evidence.skew, 1.0))
    gain = evidence.compare(limits)
    slow = [f.predicted_gain or 1.0 for f in findings if f.code == Code.SLOW_OST]  # which the model does not know
    # Measured shares bound the gains that findings state, but not the model's.
    return max(min(gain * max(slow, default=1.0), math.prod(gains)), *gains)
