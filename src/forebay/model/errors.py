"""Every error that Forebay raises on purpose.

ForebayError
├── UserError             the caller can fix it; the command line exits with 2
│   ├── BadInput          a file or a value is not valid
│   ├── UnknownName       no policy, study or application has this name
│   └── Refused           a policy answered Later or Never where a decision is needed
└── PolicyError           a policy broke its contract; its author can fix it
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class ForebayError(Exception):
    """The root of the tree."""


class UserError(ForebayError):
    """An error that the caller can fix; its message is one line."""


class BadInput(UserError):
    """A value that is not valid, and where it is.

    >>> str(BadInput("jobs.toml: application[2].volume", "must not be negative"))
    'jobs.toml: application[2].volume: must not be negative'
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:  # so that another process can send it back
        return type(self), (self.where, self.reason)


class UnknownName(UserError):
    """A name that does not exist, and the nearest one that does.

    >>> str(UnknownName("allocation policy", "tpcu", ["tcpu", "static"]))
    "no allocation policy 'tpcu'; did you mean 'tcpu'?"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        self._arguments = (kind, name, names)
        near = nearest_name(name, names)
        hint = f"did you mean {near!r}?" if near else f"use one of: {', '.join(names)}" if names else "there is none"
        super().__init__(f"no {kind} {name!r}; {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments


class Refused(UserError):
    """A policy answered `Later` or `Never` where a decision is needed."""


class PolicyError(ForebayError):
    """A policy returned a value that its contract forbids."""


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str | None:
    """The known name that looks most like `name`; `cutoff` is the least similarity, up to 1."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def shorten_value(value: object) -> str:
    """A value for a message, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def why(error: OSError) -> str:
    """The operating system's reason, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


@contextmanager
def name_errors(path: object) -> Iterator[None]:
    """Turn an OSError into BadInput with the path of the file."""
    try:
        yield
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
