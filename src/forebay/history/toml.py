"""Reads and checks users' TOML files; errors name the file and the key."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator as AfterValidator
from pydantic import BaseModel, ConfigDict
from pydantic import BeforeValidator as BeforeValidator
from pydantic import Field as Field
from pydantic import ValidationError as ValidationError
from pydantic import ValidationInfo as ValidationInfo

from forebay.history.regular_files import check_regular
from forebay.model.errors import BadInput, nearest_name, why
from forebay.model.units import format_duration, parse_bandwidth, parse_duration, parse_size, require_unit

T = TypeVar("T")
TableType = TypeVar("TableType", bound="Table")


class Table(BaseModel):
    """A table that allows only these keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OpenTable(Table):
    """A table that also allows other keys."""

    model_config = ConfigDict(extra="allow", strict=True)


def _quantity(parse: Callable[[Any], float]) -> BeforeValidator:
    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"must be a number, or text with a unit, not {value!r}")
        return parse(value)

    return BeforeValidator(read)


def _size_with_unit(value: object) -> float:
    return parse_size(require_unit(value))


Seconds = Annotated[float, _quantity(parse_duration)]
Bytes = Annotated[float, _quantity(parse_size)]
BytesWithUnit = Annotated[float, BeforeValidator(_size_with_unit)]
BytesPerSecond = Annotated[float, _quantity(parse_bandwidth)]


def _relative_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    return Path((info.context or {}).get("folder", ""), Path(value).expanduser()) if value else None


def _whole_path(value: object) -> object:
    if isinstance(value, str | Path) and not Path(value).is_absolute():
        raise ValueError(f"must be an absolute path, not {str(value)!r}")
    return Path(value) if isinstance(value, str) else value


RelativePath = BeforeValidator(_relative_path)
"""Marks a path relative to the folder of the file; "" becomes None."""
WholePath = Annotated[Path, BeforeValidator(_whole_path)]


def up_to(longest: float) -> AfterValidator:
    """Check that a duration is above 0 and at most `longest` seconds."""

    def check(seconds: float) -> float:
        if not 0 < seconds <= longest:
            most = format_duration(longest)
            raise ValueError(f"must be longer than 0 s and at most {most}, not {format_duration(seconds)}")
        return seconds

    return AfterValidator(check)


def check_pattern(pattern: str, rule: str) -> AfterValidator:
    """Check that a text matches the whole pattern; `rule` says what the text may contain."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"may contain {rule}, not {text!r}")
        return text

    return AfterValidator(check)


def load_toml(path: Path) -> dict[str, Any]:
    """The document in a file, not yet validated."""
    text = ""
    try:
        check_regular(path, pipes=True)
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text)
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except UnicodeDecodeError:
        raise BadInput(str(path), "is not UTF-8 text") from None
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1] if line else text.count(chr(10)) + 1}"
        raise BadInput(where, f"is not TOML: {str(error).partition(' (at ')[0]}") from None
    except RecursionError:
        raise BadInput(str(path), "is nested too deeply") from None


def validate(path: Path, document: dict[str, Any], model: type[TableType]) -> TableType:
    """The document as a value of type `model`."""
    try:
        return model.model_validate(document, context={"folder": path.absolute().parent})
    except BadInput as error:  # from a value that checks itself and knows its key but not its file
        raise BadInput(error.where if str(path) in error.where else f"{path}: {error.where}", error.reason) from None
    except ValidationError as error:
        deepest = max(error.errors(), key=lambda e: len(e["loc"]))  # of several alternatives, the best match
        where = _where(deepest["loc"])
        raise BadInput(f"{path}: {where}" if where else str(path), _reason(deepest)) from None


def _where(steps: tuple[int | str, ...]) -> str:
    """('application', 2, 'volume') -> 'application[2].volume'; without pydantic's own steps."""
    named = [s for s in steps if not (isinstance(s, str) and ("[" in s or s.startswith("_") or s in _PYDANTIC_STEPS))]
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in named).lstrip(".")


_PYDANTIC_STEPS = ("str", "bool", "float", "function-before")


def _reason(error: Any) -> str:
    reasons = {"missing": "is missing", "extra_forbidden": "is not a key of this table"}
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])  # our own message, which includes the value
    reason = f"{describe_requirement(error)}, not {error['input']!r}"
    if error["type"] == "literal_error":
        names = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        near = nearest_name(str(error["input"]), names)
        return f"{reason}; did you mean {near!r}?" if near else reason
    return reasons.get(error["type"], reason)


def describe_requirement(error: Any) -> str:
    """What pydantic wants of a value, in the words of the other messages.

    >>> describe_requirement({"type": "greater_than_equal", "msg": "Input should be greater than or equal to 1"})
    'must be at least 1'
    """
    if error["type"] in _REQUIREMENTS:
        return _REQUIREMENTS[error["type"]]
    text = f"{error['msg'][0].lower()}{error['msg'][1:]}"
    for pydantic, ours in _WORDING:
        text = text.replace(pydantic, ours)
    return text


_REQUIREMENTS = {
    "string_type": "must be text",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
}
_WORDING = (
    ("input should be", "must be"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
)


def locate_errors(where: str, make: Callable[[], T]) -> T:
    """Call `make`, and turn its ValueError into BadInput at `where`."""
    try:
        return make()
    except ValueError as error:
        raise BadInput(where, str(error)) from None
