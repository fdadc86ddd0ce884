"""Findings of Forebay and of Drishti (PyPI: drishti-io) on the same labelled logs.

Run it with the `drishti` command on the PATH; without it, only Forebay's scores are printed.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
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
    folder = log.with_suffix("")
    folder.mkdir()
    subprocess.run(["drishti", log, "--csv", "--export_dir", folder], capture_output=True, timeout=120, check=False)
    raised: set[str] = set()
    for table in folder.glob("*.csv"):  # none if it gave up
        with table.open() as file:
            raised |= {code for row in csv.DictReader(file) for code, value in row.items() if value == "True"}
    codes = {SAME[code] for code in raised if code in SAME}
    return codes - {"small-requests"} if "small-requests-shared" in codes else codes


def main() -> None:
    tools = {"forebay": ask_forebay} | ({"drishti": ask_drishti} if shutil.which("drishti") else {})
    right, wrong, missed = ({tool: Counter[str]() for tool in tools} for _ in range(3))
    labels: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for labelled in labelled_programs():
            log = labelled.program.write(Path(folder) / f"{labelled.name}.darshan")
            labels.update(labelled.labels)
            for tool, ask in tools.items():
                codes = ask(log)
                right[tool].update(codes & labelled.labels)
                wrong[tool].update(codes - labelled.labels)
                missed[tool].update(labelled.labels - codes)
    for tool in tools:
        hits, alarms, misses = (counts[tool].total() for counts in (right, wrong, missed))
        print(
            f"{tool}: recall {hits / (hits + misses):.0%}, precision {hits / (hits + alarms):.0%} "
            f"({hits} of {hits + misses} found, {alarms} false alarms)"
        )
        for code in sorted(labels | wrong[tool]):
            print(f"  {code:22} {right[tool][code]:3} of {labels[code]:3} found, {wrong[tool][code]:3} false")


if __name__ == "__main__":
    main()
