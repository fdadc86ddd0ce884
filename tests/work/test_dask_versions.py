"""Whether the parts of a cluster are of the same versions as we are."""

from typing import Any

import pytest

from forebay.model.errors import BadInput
from forebay.work.dask import SAME, _check_versions

OURS = dict.fromkeys(SAME, "1.2.3") | {"python": "3.11.7.final.0"}


def found(scheduler: dict[str, Any] | None = None, worker: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "client": {"packages": OURS},
        "scheduler": {"packages": OURS | (scheduler or {})},
        "workers": {
            "tcp://w:1": {"packages": OURS},
            "tcp://w:2": {"packages": OURS | (worker or {})},
            "tcp://w:3": None,
        },
    }


def test_the_same_versions_everywhere_are_fine() -> None:
    _check_versions(found(), "dask://h:1")


def test_a_scheduler_needs_neither_forebay_nor_the_same_patch_of_python() -> None:
    _check_versions(found(scheduler={"forebay": None, "numba": None, "python": "3.11.2.final.0"}), "dask://h:1")


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (
            {"scheduler": {"distributed": "1.2.4"}},
            "the scheduler has distributed 1.2.4, this machine has 1.2.3; install",
        ),
        ({"scheduler": {"python": "3.12.1.final.0"}}, "the scheduler has python 3.12, this machine has 3.11; install"),
        ({"worker": {"numba": "9"}}, "the worker tcp://w:2 has numba 9, this machine has 1.2.3; install"),
        ({"worker": {"numpy": None}}, "the worker tcp://w:2 has numpy (none), this machine has 1.2.3; install"),
        (
            {"worker": {"forebay": None}},
            "the worker tcp://w:2 lacks the package forebay; install it with the worker's Python: pip",
        ),
    ],
)
def test_another_version_is_said_with_the_way_out(odd: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        _check_versions(found(**odd), "dask://h:1")
    assert str(refused.value).startswith(f"dask://h:1: {words}")
