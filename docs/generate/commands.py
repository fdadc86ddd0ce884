"""docs/reference/commands.md: what `forebay --help` says, all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from forebay.cli import app
from generate.markdown import code, page, table, words

EXIT = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | success |
| 1 | an internal error; one line on stderr says what failed, and `FOREBAY_TRACEBACK=1` shows where |
| 2 | an error that you can correct: an option, a file, a name; one line on stderr says which, and where |
| 130 | interrupted with Ctrl-C; finished work is kept |

Every command has `--help` (`-h`). With `--json`, a command prints one JSON document on stdout and nothing else
([its fields](json.md)); progress and notes go to stderr."""

READ = {
    "FOREBAY_AUTHORITY": "the authority that signed the service's certificate (`--authority`)",
    "FOREBAY_CALIBRATION": "the file of `forebay calibrate`, which `diagnose` reads",
    "FOREBAY_CONFIG": "the file to read instead of `forebay.toml` ([keys](configuration.md))",
    "FOREBAY_DB": "the history, if `--db` is not given",
    "FOREBAY_SERVICE": "the control service, if `--service` is not given",
    "FOREBAY_TOKEN_FILE": "the file with your token (`--token`)",
    "FOREBAY_TRACEBACK": "if set, internal errors show a traceback",
    "FOREBAY_WITHOUT_COMPILE_NOTICE": "if set, nothing on stderr says that kernels are compiled",
}
SET = {
    "FOREBAY_APP": "the application of the job",
    "FOREBAY_GRANT": "the grant's ID",
    "FOREBAY_OSTS": "the OSTs of a job's scratch folder, comma-separated",
    "FOREBAY_PATH": "the path of the space; the first of several volumes",
    "FOREBAY_PATHS": "the paths of all volumes, separated by `:`",
    "FOREBAY_SCRATCH": "the job's scratch folder",
    "FOREBAY_SETTINGS": "how to connect to exposed volumes",
    "FOREBAY_STRIPE_COUNT": "the stripe count of the scratch folder",
    "FOREBAY_STRIPE_OFFSET": "its first target, -1 for any",
    "FOREBAY_STRIPE_SIZE": "its stripe size in bytes",
    "FOREBAY_TARGETS": "the job's targets, comma-separated",
}


def commands_page() -> str:
    environment = "\n\n".join(
        (
            "## Environment",
            "Commands read these variables (besides those of their options):",
            table(("variable", "meaning"), [(code(name), meaning) for name, meaning in READ.items()]),
            "`--env` of `forebay storage request` and the Slurm scripts set these variables for jobs and users:",
            table(("variable", "meaning"), [(code(name), meaning) for name, meaning in SET.items()]),
        )
    )
    return page("Commands", EXIT, environment, *(_command(path, found) for path, found in all_commands()))


def all_commands() -> Iterator[tuple[str, Any]]:
    """('size', …), ('storage list', …): every command that does something, in the order of `forebay --help`."""
    yield from _under(typer.main.get_command(app), "")


def _under(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, found in group.commands.items():
        whole = f"{path} {name}".strip()
        if hasattr(found, "commands"):
            yield from _under(found, whole)
        else:
            yield whole, found


def _command(path: str, found: Any) -> str:
    rows = [_parameter(one) for one in found.params if not one.hidden]
    parts = [
        f"## forebay {path}",
        words(" ".join(found.help.split())),
        f"```text\n{_usage(path, found)}\n```",
        table(("argument, option", "default", "meaning"), rows) if rows else "",
        f"```console\n$ {_example(found)}\n```" if found.epilog else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _usage(path: str, found: Any) -> str:
    given = [_name(one) if one.required else f"[{_name(one)}]" for one in found.params if _is_argument(one)]
    needed = [_name(one) for one in found.params if not _is_argument(one) and one.required]
    return " ".join(("forebay", path, *needed, "[OPTIONS]", *given))


def _example(found: Any) -> str:
    return " ".join(found.epilog.split()).removeprefix("Example: ")


def _is_argument(one: Any) -> bool:
    return not any(name.startswith("-") for name in one.opts)


def _name(one: Any) -> str:
    if _is_argument(one):
        name = (one.metavar or one.name).upper().removesuffix("...")
        return f"{name}..." if one.nargs != 1 or one.multiple else name
    names = ", ".join((*one.opts, *one.secondary_opts))
    return names if one.is_flag else f"{names} {one.metavar or _kind(one)}"


def _kind(one: Any) -> str:
    return {"integer": "N", "integer range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "PATH"}.get(
        one.type.name, "TEXT"
    )


def _parameter(one: Any) -> tuple[str, str, str]:
    default = "" if one.required or one.default in (None, False, ()) else str(one.default)
    default = "required" if one.required else code(default)
    remarks = [words(one.help or "")]
    remarks += ["Repeatable."] if one.multiple else []
    remarks += [f"At least {one.type.min:,}."] if getattr(one.type, "min", None) is not None else []
    remarks += [f"At most {one.type.max:,}."] if getattr(one.type, "max", None) is not None else []
    remarks += [f"Environment: `{one.envvar}`."] if one.envvar else []
    return code(_name(one)), default, " ".join(remarks)
