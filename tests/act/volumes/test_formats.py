"""How large a file system must be: checked against what the kernel leaves to the user."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.volumes.formats import find_format
from forebay.model.errors import BadInput
from support.volumes import MIB, mounted, sh

SIZES = {
    "ext4": [1, 10 * MIB, 127 * MIB, 10**9, 129 * 10**9, 2 * 10**12, 12 * 10**12],
    "xfs": [220 * MIB, 10**9, 129 * 10**9, 2 * 10**12, 12 * 10**12],
}


@pytest.mark.parametrize(("fs", "size"), [(fs, size) for fs, sizes in SIZES.items() for size in sizes])
def test_the_user_gets_the_size_asked_and_hardly_more(fs: str, size: int, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, find_format(fs).gross_size(size))
    sh(*find_format(fs).make_command(size, image))
    with mounted(image, "-o", ",".join(("loop", *find_format(fs).options))) as top:
        found = os.statvfs(top)
    assert size <= found.f_bavail * found.f_frsize <= size * 1.003 + 6 * MIB


@given(st.sampled_from(["ext4", "xfs"]), st.integers(220 * MIB, 10**14), st.integers(0, 10**12))
def test_more_space_never_takes_a_smaller_device(fs: str, size: int, more: int) -> None:
    gross = find_format(fs).gross_size
    assert size < gross(size) <= gross(size + more)


@given(st.integers(220 * MIB, 10**14))
def test_the_overhead_is_small(size: int) -> None:
    assert find_format("ext4").gross_size(size) <= size * 1.04 + 24 * MIB
    assert find_format("xfs").gross_size(size) <= size * 1.01 + 112 * MIB


@given(st.integers(1, 220 * MIB - 1))
def test_xfs_is_not_made_smaller_than_it_can_be(size: int) -> None:
    with pytest.raises(BadInput, match="the minimum is"):
        find_format("xfs").gross_size(size)
