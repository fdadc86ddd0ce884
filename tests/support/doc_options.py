"""Commands that are shown, but not run: the subcommand and each option that they name exist."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import Any

import typer

from forebay.cli import app

# A command stands at the start, after a prompt, or after what ends another one.
_FOREBAY = re.compile(r"(?:^(?:[$#>] )?|[;&|(]\s*|\b(?:sudo|exec|do|then) )(?:\S*/)?forebay +([^;&|()<>\n]*)", re.M)


@cache
def _root() -> Any:
    """Typer's own kind of click's commands."""
    return typer.main.get_command(app)


def wrong_options(text: str) -> list[str]:
    """What is wrong with the `forebay …` in a text, in words."""
    joined = re.sub(r"\\\n(> )?", " ", text)
    plain = re.sub(r"(^|\s)\s*# .*", r"\1", re.sub(r"^# ", "$ ", joined, flags=re.M), flags=re.M)
    return [wrong for words in _FOREBAY.findall(plain) if (wrong := _wrong(words))]


def _wrong(words: str) -> str | None:
    command = _root()
    for word in _split(words):
        below = getattr(command, "commands", None)
        if below is not None and not word.startswith("-"):
            if word not in below:
                return f"forebay {words.strip()}: there is no {word!r}"
            command = below[word]
        elif re.match(r"--?[a-z]", word) and word.partition("=")[0] not in _options(command):
            return f"forebay {words.strip()}: there is no {word}"
    return None


def _split(words: str) -> list[str]:
    """As a shell would; a text that was cut inside quotes is split at its blanks."""
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()


def _options(command: Any) -> set[str]:
    return {"-h", "--help", *(name for option in command.params for name in (*option.opts, *option.secondary_opts))}
