"""The conclusions say what the numbers say."""

from collections.abc import Mapping

import numpy as np

from forebay.studies.io_resources.findings import conclusions
from forebay.studies.io_resources.results import RUN, TRUE, Results, load_bins

GREEDY = "greedy-non-clairvoyant"


def results(slowdowns: Mapping[str, tuple[float, float]], idle: Mapping[str, tuple[float, float]]) -> Results:
    runs = np.zeros(2 * len(slowdowns), dtype=RUN)
    for i, (name, values) in enumerate(slowdowns.items()):
        for j, value in enumerate(values):
            row = runs[2 * i + j]
            row["allocate"], row["place"], row["curves"] = name, GREEDY, TRUE
            row["load"] = row["io_load_sys"] = (0.2, 0.8)[j]
            row["mean_io_slowdown"], row["machine_idle"] = value, idle[name][j]
    return Results(
        study="io-nodes",
        origin="2 made-up curves",
        settings={},
        bins=load_bins([0.2, 0.8], 0.1),
        runs=runs,
        occupancy=np.zeros((runs.size, 4)),
    )


def test_the_best_of_each_end_and_the_crossing_are_named() -> None:
    found = results(
        {"best-bandwidth": (1.5, 6.0), "nsys": (2.5, 4.0)}, {"best-bandwidth": (0.1, 0.4), "nsys": (0.2, 0.3)}
    )
    said = " ".join(conclusions(found))
    assert "At load 0.2 with greedy-non-clairvoyant, best-bandwidth has the lowest mean I/O slowdown (1.50)" in said
    assert "nsys has a lower mean I/O slowdown than best-bandwidth from load 0.8 on" in said
    assert "2 made-up curves" in said


def test_a_loss_of_forebay_is_said_as_plainly_as_a_gain() -> None:
    slow = {"tcpu": (2.0, 4.0), "best-bandwidth": (2.0, 5.0), "forebay": (2.2, 3.0)}
    idle = {"tcpu": (0.2, 0.4), "best-bandwidth": (0.2, 0.5), "forebay": (0.2, 0.3)}
    said = " ".join(conclusions(results(slow, idle)))
    changed = "changes the mean I/O slowdown by -25.0 to +10.0 % and lowers the machine idle time by 0.0 to 25.0 %"
    assert f"forebay {changed}" in said


def test_what_only_loses_raises() -> None:
    slow = {"tcpu": (2.0, 4.0), "best-bandwidth": (2.0, 4.0), "forebay": (2.2, 5.0)}
    idle = {"tcpu": (0.2, 0.4), "best-bandwidth": (0.2, 0.4), "forebay": (0.2, 0.3)}
    said = " ".join(conclusions(results(slow, idle)))
    assert "forebay raises the mean I/O slowdown by 10.0 to 25.0 % and lowers the machine idle time by" in said


def test_comparisons_without_their_policies_are_left_out() -> None:
    said = " ".join(conclusions(results({"static": (2.0, 3.0)}, {"static": (0.1, 0.2)})))
    assert "nsys" not in said
    assert "forebay" not in said
