"""Files that commands write."""

import resource
from pathlib import Path

import pytest

from forebay.show.output import whole_file


def test_nothing_is_left_of_a_file_that_could_not_be_completed(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a full disk: Python ignores SIGXFSZ
    try:
        with pytest.raises(OSError, match="File too large"), whole_file(path) as file:
            file.write("x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("page.html", "old")]


def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with whole_file(path) as file:
        file.write("new")
        assert not path.exists()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("page.html", "new")]
