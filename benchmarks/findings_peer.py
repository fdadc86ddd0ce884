"""Findings of Forebay and of Drishti (PyPI: drishti-io) on the same labelled logs.

Run it with the `drishti` command on the PATH; without it, only Forebay is scored. Without an argument it writes
the logs of the tests; to score logs of your own, name a JSON file with their labels:
{"a.darshan": {"problems": ["misaligned"], "possible": ["small-requests"]}}
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from forebay.history.darshan.file_records import read_file_records
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.rules import find_problems
from support.labelled_logs import labelled_programs

# Drishti's codes that mean the same; those about volumes of reads and writes are no problems.
SAME = {
    "P05": "small-requests", "P06": "small-requests", "P15": "small-requests-shared", "P16": "small-requests-shared",
    "P08": "misaligned", "P09": "repeated-reads", "P11": "random-access", "P13": "random-access",
    "P17": "metadata-bound", "P18": "imbalance", "P19": "imbalance", "P21": "imbalance", "P22": "imbalance",
    "M02": "no-collective", "M03": "no-collective", "S01": "stdio-bulk",
}  # fmt: skip


def ask_forebay(log: Path) -> set[str]:
    return {str(finding.code) for finding in find_problems(Evidence(records=read_file_records(log)))}


def ask_drishti(log: Path) -> set[str]:
    raised: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        command = ["drishti", str(log), "--csv", "--export_dir", folder]
        subprocess.run(command, capture_output=True, timeout=120, check=False)
        for table in Path(folder).glob("*.csv"):  # none if it gave up
            with table.open() as file:
                raised |= {code for row in csv.DictReader(file) for code, value in row.items() if value == "True"}
    codes = {SAME[code] for code in raised if code in SAME}
    return codes - {"small-requests"} if "small-requests-shared" in codes else codes


Labelled = Iterator[tuple[Path, set[str], set[str]]]
"""Logs, each with its problems, and with what is neither missed without a finding nor wrong with one."""


def write_labelled(folder: Path) -> Labelled:
    """The logs that the tests write."""
    for labelled in labelled_programs():
        yield labelled.program.write(folder / f"{labelled.name}.darshan"), set(labelled.labels), set()


def read_labelled(labels: Path) -> Labelled:
    """Other logs: a JSON file with `{"a.darshan": {"problems": [codes], "possible": [codes]}}`."""
    for name, known in json.loads(labels.read_text()).items():
        yield labels.parent / name, set(known["problems"]), set(known.get("possible", ()))


def print_scores(logs: Labelled, *, by_log: bool = False) -> None:
    """Recall and precision of Forebay, and of Drishti if it is installed, together and for each code."""
    tools = {"forebay": ask_forebay} | ({"drishti": ask_drishti} if shutil.which("drishti") else {})
    right, wrong, missed = ({tool: Counter[str]() for tool in tools} for _ in range(3))
    labels: Counter[str] = Counter()
    for log, problems, possible in logs:
        labels.update(problems)
        for tool, ask in tools.items():
            codes = ask(log)
            right[tool].update(codes & problems)
            wrong[tool].update(codes - problems - possible)
            missed[tool].update(problems - codes)
            if by_log and (problems - codes or codes - problems - possible):
                print(f"  {tool}, {log.name}: missed {sorted(problems - codes)}, "
                      f"false {sorted(codes - problems - possible)}")  # fmt: skip
    for tool in tools:
        hits, alarms, misses = (counts[tool].total() for counts in (right, wrong, missed))
        print(
            f"{tool}: recall {hits / max(hits + misses, 1):.0%}, precision {hits / max(hits + alarms, 1):.0%} "
            f"({hits} of {hits + misses} found, {alarms} false alarms)"
        )
        for code in sorted(labels | wrong[tool]):
            print(f"  {code:22} {right[tool][code]:3} of {labels[code]:3} found, {wrong[tool][code]:3} false")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labels", nargs="?", type=Path, help="a JSON file with the labels of other logs")
    labels = parser.parse_args().labels
    if labels:
        print_scores(read_labelled(labels), by_log=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        print_scores(write_labelled(Path(folder)))


if __name__ == "__main__":
    main()
