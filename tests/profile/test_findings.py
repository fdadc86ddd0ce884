"""Findings are compared with logs whose problems are known, and with real ones."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from forebay.history.darshan.file_records import read_file_records
from forebay.model.errors import UserError
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.finding import Code, Finding
from forebay.profile.findings.rules import find_problems
from forebay.profile.findings.thresholds import LEAST_GAIN
from support.damage import damaged
from support.darshan_logs import POSIX, Parts, all_logs, wheel_log
from support.labelled_logs import CLEAN, KIB, PLANTS, Labelled, Program, labelled_programs, own, shared_blocks

PROGRAMS = list(labelled_programs())
ALONE = [program for program in PROGRAMS if "+" not in program.name]


def diagnose(path: Path) -> list[Finding]:
    return find_problems(Evidence(records=read_file_records(path)))


def codes(findings: list[Finding]) -> set[str]:
    return {str(finding.code) for finding in findings}


@pytest.mark.parametrize("labelled", ALONE, ids=lambda labelled: labelled.name)
def test_a_planted_problem_is_found_and_nothing_else(labelled: Labelled, tmp_path: Path) -> None:
    findings = diagnose(labelled.program.write(tmp_path / "run.darshan"))
    assert codes(findings) == labelled.labels
    waited_for = {Code.IMBALANCE, Code.SINGLE_WRITER, Code.SLOW_OST}  # by all others
    for finding in findings:
        if finding.code not in waited_for and finding.share is not None:
            assert (finding.predicted_gain or 1.0) <= 1.001 / max(1 - finding.share, 1e-6)


def test_of_several_problems_nearly_all_are_found_and_nothing_else(tmp_path: Path) -> None:
    right, missed, wrong = Counter[str](), Counter[str](), Counter[str]()
    for number, labelled in enumerate(PROGRAMS):
        answer = codes(diagnose(labelled.program.write(tmp_path / f"{number}.darshan")))
        right.update(answer & labelled.labels)
        missed.update(labelled.labels - answer)
        wrong.update(answer - labelled.labels)
    assert len(PROGRAMS) >= 60 and len(CLEAN) >= 10
    assert right.total() >= 0.95 * (right.total() + missed.total()), missed
    assert not wrong


def test_every_code_but_that_of_partial_logs_is_planted() -> None:
    planted = {label for labels, _ in PLANTS.values() for label in labels}
    assert planted == set(Code) - {Code.PARTIAL_LOG, Code.INCOMPLETE_LOG}


def test_a_log_with_an_unreadable_part_says_so(tmp_path: Path) -> None:
    parts = Parts(wheel_log("example.darshan")).with_module_version(7, 255)  # STDIO in its format
    [finding] = diagnose(parts.write(tmp_path / "odd.darshan"))
    assert finding.code == Code.INCOMPLETE_LOG and "STDIO records of version 255" in finding.seen


def test_a_sick_ost_is_named_with_what_it_costs() -> None:
    [finding] = diagnose(wheel_log("sample-badost.darshan"))
    assert (finding.code, finding.numbers["ost"]) == ("slow-ost", "14")
    assert (finding.predicted_gain or 0) > 40
    assert finding.share is not None and 0.6 < finding.share < 0.7  # of the time, although it has 4 % of the bytes


def test_the_most_costly_finding_comes_first() -> None:
    findings = diagnose(wheel_log("shane_macsio_id29959_5-22-32552-7035573431850780836_1590156158.darshan"))
    gains = [finding.predicted_gain or 1.0 for finding in findings]
    assert len(gains) == 4 and gains == sorted(gains, reverse=True)


def test_a_run_whose_io_does_not_matter_has_no_finding() -> None:
    assert not diagnose(wheel_log("noposix.darshan"))


@pytest.mark.parametrize("path", all_logs(), ids=lambda path: path.name[:60])
def test_every_real_log_has_an_answer(path: Path) -> None:
    try:
        findings = diagnose(path)
    except UserError:
        return  # it says why it can't be read
    for finding in findings:
        assert finding.seen and finding.because and finding.remedy
        assert finding.share is None or 0 <= finding.share <= 1.001
        assert finding.predicted_gain is None or finding.predicted_gain >= LEAST_GAIN


def test_of_a_log_that_lacks_most_io_only_the_requests_it_has_are_judged(tmp_path: Path) -> None:
    labelled = next(program for program in PROGRAMS if program.name == "many-files-8")
    labelled.program.compute = 3600.0  # what the log has takes a part of the run that nobody would notice
    path = labelled.program.write(tmp_path / "whole.darshan")
    assert not diagnose(path)
    partial = Parts(path).with_partial(POSIX).write(tmp_path / "partial.darshan")
    assert codes(diagnose(partial)) == {"partial-log", "small-requests"}


def test_a_sync_after_each_write_is_named(tmp_path: Path) -> None:
    for name, code in (("synced-own-1k-8", "small-requests"), ("synced-shared-1k-8", "small-requests-shared")):
        labelled = next(program for program in PROGRAMS if program.name == name)
        [finding] = diagnose(labelled.program.write(tmp_path / "run.darshan"))
        assert finding.code == code and "a sync after most writes" in finding.because


def test_the_largest_files_are_named_whether_one_process_uses_them_or_several(tmp_path: Path) -> None:
    program = Program(4)
    for rank in range(3):  # three records of 40 MiB are more than one of 100 MiB
        program.move(1, rank, "WRITE", np.arange(0, 40 * KIB * KIB, KIB * KIB), KIB * KIB)
    for file, size in ((2, 100), (3, 50), (4, 60), (5, 10)):
        program.move(file, 3, "WRITE", np.arange(0, size * KIB * KIB, KIB * KIB), KIB * KIB)
    evidence = Evidence(records=read_file_records(program.write(tmp_path / "run.darshan")))
    largest = evidence.name_files(evidence.posix["bytes"].sum(axis=1))
    assert largest == ("/scratch/file1", "/scratch/file2", "/scratch/file4")
    assert evidence.count_files(np.ones(evidence.posix.size, dtype=bool)) == 5


def test_requests_of_about_a_mebibyte_are_not_small(tmp_path: Path) -> None:
    """Darshan counts those from 100 KiB to 1 MiB together, and names only the four commonest sizes."""
    program = Program(8)
    for size in range(800, 1000, 10):
        own(program, 20 * size * KIB, size * KIB, first=100 + 8 * size)
        shared_blocks(program, 20 * size * KIB, size * KIB, file=1)
    findings = diagnose(program.write(tmp_path / "run.darshan"))
    assert not {"small-requests", "small-requests-shared"} & codes(findings)


def test_a_damaged_log_is_diagnosed_or_refused(tmp_path: Path) -> None:
    random, path = Random(11), tmp_path / "damaged.darshan"
    whole = [labelled.program.write(tmp_path / f"{n}.darshan") for n, labelled in enumerate(PROGRAMS[12:40:4])]
    answers = Counter[str]()
    for number in range(140):
        path.write_bytes(damaged(whole[number % len(whole)], random))
        try:
            findings = diagnose(path)
        except UserError:
            answers["refused"] += 1
            continue
        answers["diagnosed"] += 1
        for finding in findings:
            assert finding.share is None or 0 <= finding.share <= 1.001
            assert all(np.isfinite(n) and n >= 0 for n in finding.numbers.values() if not isinstance(n, str))
    assert min(answers.values()) > 20, answers
