"""`forebay token`, as an administrator meets it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from support.command import Forebay


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def make(tmp_path: Path) -> list[str]:
    return ["token", "make", "a", "--role", "administrator", "--db", f"{tmp_path}/service.db", "--out"]


def test_a_new_token_replaces_the_one_in_its_file_and_nothing_else(
    forebay: Forebay, make: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.token"
    assert forebay(*make, path).code == 0
    first = path.read_text()
    assert forebay(*make, path).code == 0
    second = path.read_text()
    assert first != second and stat.S_IMODE(path.stat().st_mode) == 0o600
    for text in ("127.0.0.1 localhost\n", f"{second}{first}", f"{second.strip()}=", f" {second}", "\n"):
        path.write_text(text)
        path.chmod(0o644)
        ran = forebay(*make, path)
        assert ran.err == (
            f"forebay: {path}: exists and is not the file of a token; remove it or give --out another name\n"
        )
        assert (ran.code, ran.out, path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (2, "", text, 0o644)


def test_a_token_that_cannot_be_written_leaves_the_old_one_valid(
    forebay: Forebay, make: list[str], tmp_path: Path
) -> None:
    from forebay.history.store import open_store, tokens

    def known() -> list[tokens.Token]:
        with open_store(f"{tmp_path}/service.db") as store, store.open_reader() as connection:
            return tokens.list_tokens(connection)

    assert forebay(*make, tmp_path / "a.token").code == 0
    before = known()
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    assert forebay(*make, tmp_path / "hosts").code == 2
    assert forebay(*make, tmp_path).code == 2
    assert known() == before


def test_a_token_for_a_link_goes_into_the_file_that_it_names(forebay: Forebay, make: list[str], tmp_path: Path) -> None:
    link, path = tmp_path / "link", tmp_path / "a.token"
    link.symlink_to(path)
    path.touch()
    assert forebay(*make, link).code == 0
    assert link.is_symlink() and len(path.read_text()) == 44


@pytest.mark.parametrize("words", [("list",), ("remove", "a")])
def test_a_database_that_is_not_there_is_not_called_a_history(
    forebay: Forebay, tmp_path: Path, words: tuple[str, ...]
) -> None:
    ran = forebay("token", *words, "--db", tmp_path / "typo.db")
    said = "no such database; give the service's with --db: `db` in its settings"
    assert (ran.code, ran.err) == (2, f"forebay: {tmp_path}/typo.db: {said}\n")
    assert not list(tmp_path.iterdir())
