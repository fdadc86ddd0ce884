"""Errors say whose fault it was, where, and what to do."""

import pickle

import pytest

from forebay.model.errors import BadInput, ForebayError, PolicyError, Refused, UnknownName, UserError


def test_a_bad_input_says_where_and_why_in_one_line() -> None:
    error = BadInput("jobs.toml: application[2].volume", "must not be negative")
    assert str(error) == "jobs.toml: application[2].volume: must not be negative"
    assert (error.where, error.reason) == ("jobs.toml: application[2].volume", "must not be negative")


def test_an_unknown_name_suggests_the_nearest_known_one() -> None:
    error = UnknownName("allocation policy", "tpcu", ["static", "tcpu"])
    assert str(error) == "no allocation policy 'tpcu'; did you mean 'tcpu'?"


def test_a_name_like_no_other_lists_them_all() -> None:
    assert str(UnknownName("study", "xyz", ["osts", "io-nodes"])) == "no study 'xyz'; use one of: io-nodes, osts"


@pytest.mark.parametrize("kind", [BadInput, UnknownName, Refused])
def test_what_the_caller_can_mend_is_a_user_error(kind: type[Exception]) -> None:
    assert issubclass(kind, UserError)


def test_a_broken_policy_is_not_the_users_fault() -> None:
    assert issubclass(PolicyError, ForebayError) and not issubclass(PolicyError, UserError)


@pytest.mark.parametrize(
    "error",
    [BadInput("a.toml: x", "is bad"), UnknownName("policy", "tpcu", ["tcpu"]), Refused("no"), PolicyError("p: broken")],
)
def test_every_error_comes_back_whole_from_another_process(error: ForebayError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
