"""Policies of other packages: a broken one is reported and skipped, and all others work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.decide import registry
from forebay.decide.registry import PluginWarning, policies

_GOOD = """
from dataclasses import replace
from forebay.decide.registry import BUILT_IN
policy = replace(next(each for each in BUILT_IN if each.name == "static"), name="borrowed")
"""
_POINTS = {"borrowed": "good_plugin:policy", "raises": "bad_plugin", "absent": "no_such_module", "text": "sys:version"}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with one policy that works and three entry points that don't."""
    metadata = tmp_path / "plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in _POINTS.items())
    (metadata / "entry_points.txt").write_text(f"[forebay.policies]\n{points}")
    (tmp_path / "good_plugin.py").write_text(_GOOD)
    (tmp_path / "bad_plugin.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    caches = (policies, registry._plugins)
    for cached in caches:
        cached.cache_clear()
    yield tmp_path
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("plugins")
def test_a_broken_plugin_is_reported_once_and_skipped() -> None:
    with pytest.warns(PluginWarning) as warned:
        assert {"borrowed", "static", "forebay"} <= set(policies("allocate"))
        assert "first-fit" in policies("storage")
    reports = sorted(str(each.message) for each in warned)
    assert reports == [
        "policy 'absent' (no_such_module) of package plugin cannot be loaded: "
        """ModuleNotFoundError("No module named 'no_such_module'"); it is skipped""",
        "policy 'raises' (bad_plugin) of package plugin cannot be loaded: RuntimeError('no licence'); it is skipped",
        "policy 'text' (sys:version) of package plugin is not a forebay Policy; it is skipped",
    ]


@pytest.mark.processes
def test_the_command_line_reports_a_broken_plugin_and_works(plugins: Path) -> None:
    line = [sys.executable, "-m", "forebay", "policies"]
    ran = subprocess.run(
        line, capture_output=True, text=True, timeout=60, check=False, env={"PYTHONPATH": str(plugins)}
    )
    assert ran.returncode == 0 and "borrowed" in ran.stdout
    lines = ran.stderr.splitlines()
    assert len(lines) == 3 and all(each.startswith("forebay: warning: policy '") for each in lines)
