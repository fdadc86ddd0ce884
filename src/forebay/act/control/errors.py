"""The errors of the HTTP API: each has a code for programs beside the sentence for people."""

import json
from enum import StrEnum
from typing import Annotated, Self, TypedDict

from forebay.model.errors import ForebayError, Refused, UnknownName, UserError
from forebay.model.grant import NoSuchGrant, NotAllowed


class NotAuthenticated(UserError):
    """The caller's token, credential or login is not valid."""


class NotLoggedIn(NotAuthenticated):
    """The caller sends no token, credential or login."""


class LoginEnded(NotAuthenticated):
    """The caller's login is no longer valid."""


class OtherJournal(Refused):
    """An agent acted on another journal than this service's."""


class TooMany(UserError):
    """The caller has reached a limit on connections, waiting requests or failed logins."""


class TooLarge(UserError):
    """A request body is too long."""


class Unavailable(ForebayError):
    """The store does not answer. Repeating the request is safe."""


class ErrorCode(StrEnum):
    """The closed list of codes. Each has an HTTP status, a meaning and a class of errors."""

    status: int
    meaning: str
    kind: type[ForebayError] | None

    def __new__(cls, code: str, status: int, meaning: str, kind: type[ForebayError] | None = None) -> Self:
        self = str.__new__(cls, code)
        self._value_, self.status, self.meaning, self.kind = code, status, meaning, kind
        return self

    MALFORMED = "malformed", 400, "The request is malformed, or a value in it is impossible.", UserError
    NOT_LOGGED_IN = "not-logged-in", 401, "The request carries no token, credential or login.", NotLoggedIn
    LOGIN_ENDED = "login-ended", 401, "The login has expired or was ended. Log in again.", LoginEnded
    BAD_CREDENTIAL = "bad-credential", 401, "The token or MUNGE credential is not valid.", NotAuthenticated
    NOT_ALLOWED = "not-allowed", 403, "The caller lacks the permission.", NotAllowed
    NO_SUCH_GRANT = "no-such-grant", 404, "No grant has this name, or it is no longer kept.", NoSuchGrant
    NOT_FOUND = "not-found", 404, "No node, disk, token or path has this name.", UnknownName
    NO_SUCH_METHOD = "no-such-method", 405, "The path does not support this method."
    CONFLICT = "conflict", 409, "Not possible in the current state.", Refused
    OTHER_JOURNAL = ("other-journal", 409, "The agent knows another journal. It must report its disks first.",
                     OtherJournal)  # fmt: skip
    TOO_LARGE = "too-large", 413, "The request body is too large.", TooLarge
    TOO_MANY = "too-many", 429, "The caller has too many connections, waiting requests or failed logins.", TooMany
    INTERNAL = "internal", 500, "A defect of the service. See the service log.", ForebayError
    UNAVAILABLE = "unavailable", 503, "The store does not answer, or the service is full. Try again.", Unavailable


class ErrorDocument(TypedDict):
    """The body of every answer that is an error."""

    error: Annotated[str, "What went wrong, as a sentence."]
    code: Annotated[str, "What went wrong, for programs.", {"enum": [code.value for code in ErrorCode]}]


def error_code(error: ForebayError) -> ErrorCode:
    """The code of an error's class, or of its nearest base class with a code.

    >>> error_code(NoSuchGrant("7")), error_code(UserError("a wrong value"))
    (<ErrorCode.NO_SUCH_GRANT: 'no-such-grant'>, <ErrorCode.MALFORMED: 'malformed'>)
    """
    return next(code for kind in type(error).__mro__ for code in ErrorCode if code.kind is kind)


def code_of_status(status: int) -> ErrorCode:
    """The code of an answer that has an HTTP status and no code."""
    general = {401: ErrorCode.BAD_CREDENTIAL, 404: ErrorCode.NOT_FOUND}
    other = ErrorCode.MALFORMED if status < 500 else ErrorCode.INTERNAL
    return general.get(status) or next((code for code in ErrorCode if code.status == status), other)


def error_document(code: ErrorCode, sentence: str) -> ErrorDocument:
    return {"error": " ".join(sentence.split())[:500], "code": code.value}


def encode_error(code: ErrorCode, sentence: str) -> bytes:
    return json.dumps(error_document(code, sentence)).encode()
