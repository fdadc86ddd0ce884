"""`forebay study exascale` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.centre import EXAMPLE
from support.command import Forebay

SMALLER = {
    "machine.toml": (
        ("nodes = 9408", "nodes = 60"),
        ("osts = 900", "osts = 20"),
        ("pools = 45", "pools = 4"),
        ("osts = 450", "osts = 10"),
        ("most = 450", "most = 20"),
        ("count = 450", "count = 20"),
        ("5.5 TB/s", "120 GB/s"),
        ("4.6 TB/s", "100 GB/s"),
        ("10 TB/s", "250 GB/s"),
    ),
    "workload.toml": (
        ("[1882, 9408]", "[15, 60]"),
        ("[184, 1881]", "[4, 14]"),
        ("[1, 183]", "[1, 3]"),
        ("applications = 150", "applications = 9"),
    ),
}
FEW = ("--days", 0.3, "--months", 1, "--no-sensitivity", "--workers", 1)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    monkeypatch.chdir(tmp_path)
    for name, changes in SMALLER.items():
        text = (EXAMPLE / name).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        Path(name).write_text(text)
    return Forebay(capfd, monkeypatch)


def test_it_says_what_is_won_and_writes_the_report(forebay: Forebay) -> None:
    document = forebay(
        "study", "exascale", "--machine", "machine.toml", "--workload", "workload.toml", *FEW, "--json"
    ).json
    assert document["settings"]["machine"]["compute"]["nodes"] == 60
    assert document["conclusions"][1].startswith("All four decisions save ")
    page = Path("study-exascale/report.html").read_text()
    assert "What the model leaves out" in page and 'id="exascale-won"' in page
    assert "--machine machine.toml --workload workload.toml --months 1 --days 0.3 --no-sensitivity --seed 0" in page


def test_what_is_wrong_with_the_machine_is_said_in_one_line(forebay: Forebay) -> None:
    ran = forebay("study", "exascale", "--machine", "nowhere.toml")
    assert ran.code == 2 and "nowhere.toml" in ran.err and ran.err.count("\n") == 1
