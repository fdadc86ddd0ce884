"""The scripts that Slurm runs before and after jobs and before tasks."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

from forebay.act.slurm.jobs.environment import NAMES

SCRIPTS = ("prolog.sh", "epilog.sh", "task_prolog.sh")


def scripts(*, command: str, config: Path, told: Path, log: Path, conf: str = "") -> dict[str, str]:
    """Each by its name, to be written with mode 0755.

    `command` is how `forebay` is started, in a shell's words, `config` the file that says what is to be done
    (examples/slurm.toml), `told` the folder that it names under `jobs.folder`, and `log` where the lines about jobs
    go. `conf` is slurm.conf ("" where Slurm finds it by itself).
    """
    values = {"CONFIG": str(config), "TOLD": str(told), "LOG": str(log), "CONF": conf}
    quoted = {f"@{name}@": shlex.quote(value) for name, value in values.items()}
    quoted |= {"@FOREBAY@": command, "@NAMES@": " ".join(NAMES)}
    found = {}
    for name in SCRIPTS:
        text = (files("forebay.act.slurm.jobs") / "sh" / name).read_text(encoding="utf-8")
        for mark, value in quoted.items():
            text = text.replace(mark, value)
        found[name] = text
    return found
