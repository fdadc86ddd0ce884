"""A gain is true with the other problems still there, and that of all remedies is not their product."""

from pathlib import Path

import numpy as np
import pytest

from forebay.history.darshan.file_records import read_file_records
from forebay.profile.findings.combined_gain import predict_combined_gain
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.io_time import Limits
from forebay.profile.findings.rules import find_problems
from support.labelled_logs import KIB, MIB, Program, own, shared_turns, striped


def read(program: Program, path: Path) -> Evidence:
    return Evidence(records=read_file_records(program.write(path / "run.darshan")))


def test_the_longest_of_several_times_limits_a_run() -> None:
    assert Limits(process=2.0, total=1.0, ost=1.5, lock=1.0).longest == 2.5  # OSTs wait while a stripe changes hands


def test_remedies_together_bring_at_least_as_much_as_each_alone(tmp_path: Path) -> None:
    program = Program(16)
    shared_turns(program, 500, 16 * KIB)
    striped(program, 1, [0])
    program.open(9, 0)
    striped(program, 9, [15])
    evidence = read(program, tmp_path)
    findings = find_problems(evidence)
    together = predict_combined_gain(evidence, findings)
    assert together is not None
    assert together >= max(finding.predicted_gain or 1.0 for finding in findings)


def test_turns_in_a_file_with_one_stripe_limit_the_run_more_than_in_one_with_many(tmp_path: Path) -> None:
    limits = []
    for stripes in (1, 16):
        program = Program(16)
        shared_turns(program, 200, 16 * KIB)
        striped(program, 1, list(range(stripes)))
        limits.append(read(program, tmp_path).limits.lock)
    assert limits[0] == pytest.approx(16 * limits[1])


def test_a_run_that_its_osts_limit_gains_nothing_from_other_changes(tmp_path: Path) -> None:
    program = Program(64)
    own(program, 16 * MIB, 64 * KIB)
    for rank in program.everybody():
        striped(program, 100 + rank, [0])
    evidence = read(program, tmp_path)
    assert evidence.limits.longest == evidence.limits.ost
    assert evidence.predict_gain(0.5 * evidence.seconds) == 1.0


def test_without_findings_there_is_no_gain(tmp_path: Path) -> None:
    program = Program(4)
    own(program, 16 * MIB, 4 * MIB)
    assert predict_combined_gain(read(program, tmp_path), []) is None


def test_reads_in_order_leave_the_turns_of_writes(tmp_path: Path) -> None:
    """Only what a remedy is about is in order after it: here small reads, while the writes still take turns."""
    program = Program(16)
    shared_turns(program, 500, 16 * KIB, "READ")
    shared_turns(program, 500, 16 * KIB)
    striped(program, 1, [0])
    evidence = read(program, tmp_path)
    reads = np.zeros((evidence.posix.size, 2), dtype=bool)
    reads[:, 0] = True
    saved = float((evidence.data_seconds - evidence.ideal_seconds)[:, 0].sum())
    changed = evidence.find_limits(saved, reads)
    assert changed.lock == evidence.limits.lock > 0
    assert changed.process < evidence.limits.process
    assert changed.ost < evidence.limits.ost
