"""`forebay compile` in several processes; what it compiles is proved where kernels are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.cli import compile as compiling
from forebay.model.compile_hooks import hooks
from support.command import Forebay
from support.compile_steps import draw_numbers, need_a_group, need_what_is_not_there


@pytest.mark.processes
def test_processes_keep_the_kernels_and_leave_out_groups_that_are_not_installed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiling, "_steps", lambda _folder: iter((draw_numbers, need_a_group)))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    ran = Forebay(capfd, monkeypatch)("compile", "--workers", "2", "--json")
    assert ran.code == 0, ran.err
    kept = list((tmp_path / "kernels").rglob("*.nbc"))
    assert json.loads(ran.out)["compiled"] >= len(kept) > 0


def test_a_module_of_no_group_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "before", hooks.before)
    monkeypatch.setattr(hooks, "after", hooks.after)
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        compiling._run_step(False, need_what_is_not_there)
