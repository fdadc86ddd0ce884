import stat
from pathlib import Path

import pytest

from forebay.act.forward.net.key import read_key, write_key
from forebay.model.errors import BadInput


def test_a_new_key_is_its_owners_alone_and_read_back(tmp_path: Path) -> None:
    key = write_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key(tmp_path / "key") == key
    assert len(key) == 64


def test_two_keys_differ(tmp_path: Path) -> None:
    assert write_key(tmp_path / "a") != write_key(tmp_path / "b")


def test_a_key_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    key = write_key(tmp_path / "key")
    with pytest.raises(BadInput, match="cannot write a key: file exists"):
        write_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_key_that_others_may_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    write_key(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(BadInput, match="other users can read the key; run: chmod 600 "):
        read_key(tmp_path / "key")


@pytest.mark.parametrize("text", [b"", b"short", b"\n" * 40, b"x" * 5000])
def test_a_key_has_a_sensible_length(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "key").write_bytes(text)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(BadInput, match="must have 16 to 4096 bytes"):
        read_key(tmp_path / "key")


def test_a_key_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the key: no such file"):
        read_key(tmp_path / "none")
    with pytest.raises(BadInput, match="cannot read the key: is a directory"):
        read_key(tmp_path)
