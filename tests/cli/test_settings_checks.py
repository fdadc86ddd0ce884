"""`--check` of the service and of the agent: what can be known about settings without changing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import Forebay

AGENT = """
[agent]
node = "n1"
service = "unix:{folder}/s"
folder = "state"
{agent}
[[disk]]
name = "d0"
kind = "directory"
root = "disk"
read_bandwidth = "1 GB/s"
write_bandwidth = "1 GB/s"
{disk}
"""


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Forebay:
    (tmp_path / "disk").mkdir(mode=0o711)
    monkeypatch.chdir(tmp_path)
    return Forebay(capfd, monkeypatch)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("db = 'mysql://x'", "service.db: does not support 'mysql'"),
        ("db = 'file/x.db'", "service.db: {folder}/file/x.db cannot be created: {folder}/file is not a folder"),
        ("db = 'disk'", "service.db: {folder}/disk is a folder; give the path of a file"),
        ("munge = 'nowhere'", "service.munge: no socket at {folder}/nowhere; start munged, or name its socket"),
        ("history = 'x'", "service.history: no such file: {folder}/x; `forebay ingest --db {folder}/x PATH...`"),
        ("schedule = 'file/x'", "service.schedule: {folder}/file/x cannot be created"),
    ],
)
def test_what_the_service_cannot_use_is_named(forebay: Forebay, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "serve.toml").write_text(f"[service]\nsocket = 's'\n{line}\n")
    ran = forebay("serve", "--config", "serve.toml", "--check")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"forebay: {said.format(folder=tmp_path)}")


def test_what_the_service_makes_itself_need_not_be_there(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text("[service]\nsocket = 's'\ndb = 'new/x.db'\nschedule = 'new/plan.json'\n")
    ran = forebay("serve", "--config", "serve.toml", "--check")
    assert (ran.code, ran.out, ran.err) == (0, "the settings are valid\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "serve.toml"]


@pytest.mark.parametrize(
    ("agent", "disk", "said"),
    [
        ("address = 'a b'", "", "agent.address"),
        ("fields = { rack = '' }", "", "agent.fields.rack: is empty"),
        ("", "capacity = 2", "disk[0].capacity: must be at least 1 MiB, not 2 B"),
        ("", "fields = { tier = '' }", "disk[0].fields.tier: is empty"),
    ],
)
def test_what_an_agent_cannot_use_is_named(forebay: Forebay, tmp_path: Path, agent: str, disk: str, said: str) -> None:
    (tmp_path / "agent.toml").write_text(AGENT.format(folder=tmp_path, agent=agent, disk=disk))
    ran = forebay("agent", "agent.toml", "--check")
    assert (ran.code, ran.out) == (2, "")
    assert f"agent.toml: {said}" in ran.err


def test_a_capacity_beyond_the_usable_space_is_told(forebay: Forebay, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(AGENT.format(folder=tmp_path, agent="", disk="capacity = '500 PB'"))
    ran = forebay("agent", "agent.toml", "--check")
    assert (ran.code, ran.out) == (0, "agent.toml: valid: d0\n")
    assert ran.err.startswith("forebay: warning: disk d0: capacity is 500.00 PB, but only ")
