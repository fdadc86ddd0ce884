"""Every error that Forebay raises on purpose.

ForebayError
├── UserError             the caller can mend it; the command line exits with 2
│   ├── BadInput          a file or a value says something impossible
│   ├── UnknownName       no policy, study or application of that name
│   └── Refused           a policy answered Later or Never, and there is nothing to go on with
└── PolicyError           a policy broke its contract; the policy's author can mend it
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ForebayError(Exception):
    """The root of the tree."""


class UserError(ForebayError):
    """Something that the caller can mend; its message is one line."""


class BadInput(UserError):
    """An impossible value, with the place where it stands.

    >>> str(BadInput("jobs.toml: application[2].volume", "must not be negative"))
    'jobs.toml: application[2].volume: must not be negative'
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:  # so that it comes back whole from another process
        return type(self), (self.where, self.reason)


class UnknownName(UserError):
    """A name that nothing carries, with the nearest one that something does.

    >>> str(UnknownName("allocation policy", "tpcu", ["tcpu", "static"]))
    "no allocation policy 'tpcu'; did you mean 'tcpu'?"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        self._made_of = (kind, name, names)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
        super().__init__(f"no {kind} {name!r}; {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._made_of


class Refused(UserError):
    """A policy said `Later` or `Never` where an answer was needed to go on."""


class PolicyError(ForebayError):
    """A policy returned something that no policy may return."""


def why(error: OSError) -> str:
    """What the system says of a file, as the end of a sentence."""
    return (error.strerror or str(error)).lower()
