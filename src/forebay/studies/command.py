"""A study as a command: its own options, and those that every study has."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from forebay.show.options import Json, Workers

if TYPE_CHECKING:
    from forebay.studies.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCommand:
    """`forebay study NAME`. `build` makes the study of its own options; its docstring is the help by default."""

    name: str
    build: Callable[..., Study[Any]]
    example: str
    help: str | None = None

    def run(self, workers: str | None = None, out: Path | None = None, json: bool = False, **options: Any) -> None:
        """Run the study with these options, write what comes out into `out`, and print it."""
        from forebay.studies.runner import perform

        study = self.build(**options)
        again = shlex.join(["forebay", "study", self.name, *self._spell(options)])
        perform(study, again, out or Path(f"study-{self.name}"), workers=workers, as_json=json)

    def add_to(self, app: typer.Typer) -> None:
        """Add the command with the study's own options, and with --workers, --out and --json."""
        out = Annotated[Path | None, typer.Option(help=f"Folder for what comes out. [study-{self.name}]")]
        shared = {"workers": (Workers, None), "out": (out, None), "json": (Json, False)}
        parameters = [
            *self._parameters().values(),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
                for name, (kind, default) in shared.items()
            ),
        ]

        def run(**options: Any) -> None:
            self.run(**options)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        about = self.help or inspect.getdoc(self.build)
        app.command(self.name, help=about, epilog=f"Example: {self.example}")(run)

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        self.build.__annotations__.pop("return", None)  # a class that is not imported before the command runs
        return inspect.signature(self.build, eval_str=True).parameters

    def _spell(self, options: Mapping[str, Any]) -> Iterator[str]:
        """The options that make the same study; who did the work, and where it went, make no difference."""
        for name, parameter in self._parameters().items():
            value = options.get(name, parameter.default)
            if isinstance(value, bool):
                if value != parameter.default:
                    yield _option(parameter) if value else _option(parameter).replace("--", "--no-")
            elif value is not None:
                for each in value if isinstance(value, list | tuple) else [value]:
                    yield from (_option(parameter), _spell_value(each))


def _option(parameter: inspect.Parameter) -> str:
    [declared] = [about.default for about in get_args(parameter.annotation) if isinstance(about, OptionInfo)]
    return declared if isinstance(declared, str) else f"--{parameter.name.replace('_', '-')}"


def _spell_value(value: object) -> str:
    """As it is typed; of a file only the name."""
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return Path(text).name if isinstance(value, Path) or ("/" in text and Path(text).is_file()) else text
