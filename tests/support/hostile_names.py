"""A log whose files have names that try to change a page."""

import struct
from pathlib import Path

import numpy as np

from support.darshan_logs import Parts
from support.labelled_logs import KIB, Program

HOSTILE = [
    b"/tmp/<script>alert(1)</script>",
    b'/tmp/" onmouseover="alert(2)',
    b"/tmp/</style><img src=x onerror=alert(3)>",
    b"/tmp/\xff\xfe\x80 \x1b[31m \xe2\x80\xae gnp.exe",
    b"/tmp/{{ 7 * 7 }}{% raw %}&lt;b&gt;",
    b"/tmp/" + b"x" * 5000,
]


def write_hostile_log(path: Path) -> Path:
    """Small requests to each of these files."""
    program = Program(nprocs=2)
    for file in range(len(HOSTILE)):
        program.move(100 + file, 0, "WRITE", np.arange(0, 40 * KIB * (1 + file), 1000), 1000)
        program.move(100 + file, 1, "READ", [0], 10)
    program.write(path)
    names = b"".join(struct.pack("<Q", 100 + number) + name + b"\0" for number, name in enumerate(HOSTILE))
    return Parts(path).with_names(names).write(path)
