"""Calibrations are read back as they were written, one for each file system."""

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.model.errors import BadInput
from forebay.profile.calibration.calibration_file import (
    Accuracy,
    Calibration,
    choose_calibration,
    default_path,
    read_calibrations,
    write_calibration,
)
from forebay.profile.calibration.filesystem_costs import FileSystem, Parameters

ANY = Calibration(
    filesystem="",
    made=1_700_000_000.0,
    source='the "history"\\',
    parameters=Parameters(fs=FileSystem(bandwidth=(2e8, 5e8), name=0.02)),
    knows_requests=True,
    accuracy=(Accuracy(fitted=30, checked=31, median=1.5, p90=3.0), None),
)
SCRATCH = replace(ANY, filesystem="/lus/scratch", source="history", knows_requests=False)


def test_a_calibration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "calibration.toml"
    write_calibration(path, ANY)
    assert read_calibrations(path) == [ANY]


def test_a_calibration_replaces_only_that_of_its_file_system(tmp_path: Path) -> None:
    path = tmp_path / "calibration.toml"
    for calibration in (ANY, SCRATCH, replace(ANY, source="newer")):
        write_calibration(path, calibration)
    assert {c.filesystem: c.source for c in read_calibrations(path)} == {"": "newer", "/lus/scratch": "history"}


def test_the_file_system_of_a_file_chooses_the_calibration() -> None:
    mounts = ("/", "/lus/scratch", "/home")
    assert choose_calibration([ANY, SCRATCH], mounts, ("/lus/scratch/a",)) is SCRATCH
    assert choose_calibration([ANY, SCRATCH], mounts, ("/home/a",)) is ANY
    assert choose_calibration([SCRATCH], mounts, ("/home/a",)) is None
    assert choose_calibration([SCRATCH], (), ("/lus/scratchy/a",)) is None
    assert choose_calibration([ANY], (), ()) is ANY


def test_without_a_file_there_is_no_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_CALIBRATION", str(tmp_path / "missing.toml"))
    assert default_path() == tmp_path / "missing.toml"
    assert read_calibrations() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("lock = 0.0004", "lock = 0"), "lock must be above 0"),
        (("lock = 0.0004", ""), "lock is missing or not a number"),
        (("lock = 0.0004", "lock = true"), "lock is missing or not a number"),
        (("[calibration.reads]", "[calibration.red]"), "reads is missing or not a table"),
        (("[[calibration]]", "[calibration]"), "must hold only"),
        (('filesystem = ""', "filesystem ="), "Invalid value"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    path = tmp_path / "calibration.toml"
    write_calibration(path, ANY)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(BadInput, match=reason):
        read_calibrations(path)
