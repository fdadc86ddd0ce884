"""Every command that the documentation shows is run, and prints what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.doc_machine import given_files, machine
from support.doc_options import wrong_options
from support.doc_pages import Fence, Unclear, all_pages, read_page
from support.slurm import skip_without_slurm

PAGES = [pytest.param(path, id=path.stem) for path in all_pages()]


def has_commands(path: Path) -> bool:
    """That are run; a page that is not clear has them until it is."""
    try:
        return bool(read_page(path).commands)
    except Unclear:
        return True


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    given_files(folder)
    return folder


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in all_pages() if has_commands(path)])
def test_they_do_what_is_shown(path: Path, given: Path, tmp_path: Path) -> None:
    page = read_page(path)
    if page.setting == "slurm":
        skip_without_slurm()
    with machine(tmp_path, page.setting, given) as here:
        for command in page.commands:
            here.check(page.name, command)


def typed(fence: Fence) -> str:
    """Without what commands print; these may be others than those that are run in their stead."""
    lines = fence.text.splitlines()
    return "\n".join(
        line for line in lines if fence.language != "console" or line.startswith(("$ ", "# ", "> ", "    "))
    )


@pytest.mark.parametrize("path", PAGES)
def test_those_that_are_only_named_exist_with_their_options(path: Path) -> None:
    page = read_page(path)
    texts = (*((fence.line, typed(fence)) for fence in page.fences), *page.words)
    wrong = [f"{page.name}:{line}: {each}" for line, text in texts for each in wrong_options(text)]
    assert not wrong
