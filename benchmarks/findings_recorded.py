"""Findings of Forebay and of Drishti on logs that Darshan records here, of IOR and mdtest with known problems.

It needs mpirun, ior and mdtest on the PATH and the path of libdarshan.so in $DARSHAN; without them it says so and does
nothing. The file system is that of the temporary folder: a local one is fast and has no stripes, so that problems of
layouts cannot be seen.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from findings_peer import print_scores

PROCESSES = 4
SMALL, SHARED, TURNS = "small-requests", "small-requests-shared", "no-collective"
HARD = "-t 47008 -b 47008 -s 2000"
# Name: the command, its problems, and what may be found besides.
RUNS: dict[str, tuple[str, set[str], set[str]]] = {
    "own-2k": ("ior -F -t 2k -b 64m", {SMALL}, {"misaligned"}),
    "own-1m": ("ior -F -t 1m -b 256m", set(), set()),
    "own-4m": ("ior -F -t 4m -b 256m", set(), set()),
    "shared-2k": ("ior -t 2k -b 64m", {SHARED}, {"misaligned"}),
    "shared-4m": ("ior -t 4m -b 256m", set(), set()),
    "synced-4k": ("ior -Y -t 4k -b 2m", {SHARED}, {"misaligned"}),
    "hard": (f"ior {HARD}", {SHARED, "misaligned", TURNS}, set()),
    "hard-independent": (f"ior -a MPIIO {HARD}", {SHARED, "misaligned", TURNS}, set()),
    "independent-2k": ("ior -a MPIIO -t 2k -b 32m", {SHARED}, {"misaligned"}),
    "independent-1m": ("ior -a MPIIO -t 1m -b 512m", set(), set()),
    "collective-4m": ("ior -a MPIIO -c -t 4m -b 128m", set(), set()),
    "random-4k": ("ior -z -t 4k -b 32m", {SHARED, "random-access"}, {"misaligned"}),
    "random-own-4k": ("ior -z -F -t 4k -b 32m", {SMALL, "random-access"}, {"misaligned"}),
    "random-1m": ("ior -z -t 1m -b 256m", {"random-access"}, set()),
    "mdtest-easy": ("mdtest -n 2000 -u -L -F", {"metadata-bound"}, {SMALL}),
    "mdtest-hard": ("mdtest -n 1000 -F -w 3901 -e 3901", {"metadata-bound"}, {SMALL}),
}


def record(folder: Path, darshan: str) -> Iterator[tuple[Path, set[str], set[str]]]:
    """Run each program in a folder of its own, under Darshan."""
    for name, (command, problems, possible) in RUNS.items():
        scratch, log = folder / name, folder / f"{name}.darshan"
        scratch.mkdir()
        place = ["-d", str(scratch)] if command.startswith("mdtest") else ["-o", str(scratch / "data")]
        # Set for the programs alone: mpirun is no MPI program. Its name tables hold all files of mdtest.
        setting = [f"LD_PRELOAD={darshan}", f"DARSHAN_LOGFILE={log}", "DARSHAN_MODMEM=64", "DARSHAN_NAMEMEM=16"]
        started = ["mpirun", "-n", str(PROCESSES), "env", *setting, *command.split(), *place]
        environment = os.environ | {"HYDRA_LAUNCHER": "fork"}
        subprocess.run(started, env=environment, capture_output=True, timeout=300, check=True)
        shutil.rmtree(scratch)
        yield log, problems, possible | {"partial-log"}


def main() -> None:
    darshan = os.environ.get("DARSHAN", "")
    missing = [program for program in ("mpirun", "ior", "mdtest") if not shutil.which(program)]
    missing += [] if Path(darshan).is_file() else ["libdarshan.so (set DARSHAN to its path)"]
    if missing:
        print(f"not run: needs {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        print_scores(record(Path(folder), darshan), by_log=True)


if __name__ == "__main__":
    main()
