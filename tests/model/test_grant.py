"""What can be asked for, and which state may follow which."""

import math
import pickle
from typing import Any

import pytest

from forebay.model.errors import BadInput
from forebay.model.grant import (
    ENDED,
    EXISTING,
    HELD,
    LIVE,
    NEXT,
    VOLUME_NEXT,
    Ask,
    Grant,
    NoSuchGrant,
    State,
    VolumeState,
    node_of,
)
from support.grants import ask, grant_id


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 0}, "size: must be a whole number, at least 1 and at most 1,000,000,000,000,000,000 bytes, not 0"),
        ({"size": -5}, "size: must be a whole number, at least 1"),
        ({"size": 10**18 + 1}, "size: must be a whole number, at least 1"),
        ({"size": 1.5}, "size: must be a whole number, at least 1"),
        ({"size": True}, "size: must be a whole number, at least 1"),
        ({"seconds": 0.0}, "seconds: must be above 0 and at most"),
        ({"seconds": -1.0}, "seconds: must be above 0 and at most"),
        ({"seconds": math.nan}, "seconds: must be above 0 and at most"),
        ({"seconds": math.inf}, "seconds: must be above 0 and at most"),
        ({"seconds": 1e12}, "seconds: must be above 0 and at most"),
        ({"start": math.nan}, "start: must be seconds since 1970, not nan"),
        ({"start": 1e13}, "start: must be seconds since 1970, not 1e+13"),
        ({"ceiling": -1.0}, "ceiling: must be finite and not negative, not -1"),
        ({"uid": -1}, "uid: must be a whole number, at least 0"),
        ({"gid": 2**32}, "gid: must be a whole number, at least 0"),
        ({"mode": 0o10000}, "mode: must be a whole number, at least 0"),
        ({"key": ""}, "key: must not be empty"),
        ({"key": "a\nb"}, "key: must be at most 200 printable characters"),
        ({"job": "x" * 201}, "job: must be at most 200 printable characters"),
        ({"wants": {"tier": "\0"}}, "wants.tier: must be at most 200 printable characters"),
    ],
)
def test_what_makes_no_sense_can_not_be_asked_for(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        Ask(**{"grant": grant_id(1), "key": "k", "uid": 1, "gid": 1, "size": 1, "seconds": 1.0, **wrong})
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("name", ["", "abc", "g" * 32, "A" * 32, "0" * 33, "../" + "0" * 29])
def test_a_grant_is_called_by_32_hexadecimal_digits(name: str) -> None:
    with pytest.raises(BadInput, match=r"^grant: must be 32 hexadecimal digits"):
        Ask(grant=name, key="k", uid=1, gid=1, size=1, seconds=1.0)


def test_a_request_is_the_same_whatever_number_it_was_given() -> None:
    assert ask(1, 5, key="k").is_again(ask(2, 5, key="k"))
    assert not ask(1, 5, key="k").is_again(ask(1, 6, key="k"))
    assert not ask(1, 5, key="k").is_again(ask(1, 5, key="k", wants={"tier": "nvme"}))


def test_every_state_leads_to_an_end_and_no_end_leads_anywhere() -> None:
    assert set(NEXT) == set(State)
    assert all(not NEXT[state] for state in ENDED)
    reached = set(ENDED)
    while more := {state for state in State if NEXT[state] & reached} - reached:
        reached |= more
    assert reached == set(State)


def test_every_state_can_be_reached_from_asked() -> None:
    reached = {State.ASKED}
    while more := {after for state in reached for after in NEXT[state]} - reached:
        reached |= more
    assert reached == set(State)


def test_what_exists_is_held_and_what_is_held_lives() -> None:
    assert EXISTING < HELD < LIVE
    assert set(State) == LIVE | ENDED and not LIVE & ENDED


def test_what_exists_ends_only_by_being_released() -> None:
    assert all(not NEXT[state] & ENDED for state in EXISTING - {State.RELEASING})


def test_a_volume_that_is_gone_stays_gone() -> None:
    assert set(VOLUME_NEXT) == set(VolumeState)
    assert not VOLUME_NEXT[VolumeState.GONE]


def test_volumes_are_called_by_their_grant_and_a_number() -> None:
    grant = Grant(ask=ask(7, 5), order=1, asked=0.0, volumes=2)
    assert grant.names == (f"{grant_id(7)}.0", f"{grant_id(7)}.1")
    assert node_of("n1/nvme0/part1") == "n1"


def test_no_such_grant_comes_back_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(NoSuchGrant("x")))
    assert str(error) == "no grant 'x'; `forebay storage list` lists grants"
