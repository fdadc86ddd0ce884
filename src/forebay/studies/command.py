"""The command of a study: its own options, and those that all studies share."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

from forebay.show.options import Json, Workers

if TYPE_CHECKING:
    from forebay.studies.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCommand:
    """`forebay study NAME`. `build` creates the study from its options; its docstring is the default help."""

    name: str
    build: Callable[..., Study[Any]]
    example: str
    help: str | None = None

    def run(self, workers: str | None = None, out: Path | None = None, json: bool = False, **options: Any) -> None:
        """Run the study with these options, write its results to `out`, and print them."""
        from forebay.studies.runner import perform

        study = self.build(**options)
        command = shlex.join(["forebay", "study", self.name, *self._spell_options(options)])
        perform(study, command, out or Path(f"study-{self.name}"), workers=workers, as_json=json)

    def add_to(self, app: typer.Typer) -> None:
        """Add the command with the study's own options, and with --workers, --out and --json."""
        out = Annotated[Path | None, typer.Option(help=f"Folder for the results. [study-{self.name}]")]
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

    def _spell_options(self, options: Mapping[str, Any]) -> Iterator[str]:
        """Yield the options that reproduce the study. Workers and the output folder make no difference."""
        for name, parameter in self._parameters().items():
            value = options.get(name, parameter.default)
            if isinstance(value, bool):
                if value != parameter.default:
                    yield _option_name(parameter) if value else _option_name(parameter).replace("--", "--no-")
            elif value is not None:
                option = _option_name(parameter)
                for each in value if isinstance(value, list | tuple) else [value]:
                    yield from (*filter(None, [option]), _spell_value(each))


def _option_name(parameter: inspect.Parameter) -> str:
    """The name as users type it; "" for an argument, which has none."""
    if any(isinstance(about, ArgumentInfo) for about in get_args(parameter.annotation)):
        return ""
    [declared] = [about.default for about in get_args(parameter.annotation) if isinstance(about, OptionInfo)]
    return declared if isinstance(declared, str) else f"--{parameter.name.replace('_', '-')}"


def _spell_value(value: object) -> str:
    """Format a value as a user types it; a file by its name alone."""
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return Path(text).name if isinstance(value, Path) or ("/" in text and Path(text).is_file()) else text
