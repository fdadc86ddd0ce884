"""fio, the load generator, as the tests call it."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def needs_fuse() -> None:
    """Skip the test where nothing can be mounted."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or shutil.which("fusermount3") is None:
        pytest.skip("no FUSE: /dev/fuse or fusermount3 is missing (Debian: apt-get install fuse3)")


def needs_fio() -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed (Debian: apt-get install fio)")


def fio(folder: Path, **options: object) -> dict[str, Any]:
    """What fio measured of all its jobs together; an error of any of them fails the test.

    An option's underscores are fio's own; `verify="crc32c"` is `--verify=crc32c`.
    """
    words = [f"--{name}={value}" for name, value in {"ioengine": "psync", **options}.items()]
    argv = ["fio", "--name=test", f"--directory={folder}", "--group_reporting", "--output-format=json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=folder.parent)
    assert done.returncode == 0, done.stderr + done.stdout
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0, job
    return job
