from pathlib import Path

import pytest

from forebay.act.forward.net.key import write_key
from forebay.act.forward.net.wire import LONGEST
from forebay.act.forward.node.process import NodeOptions, check_options
from forebay.model.errors import BadInput


def test_memory_that_the_longest_message_does_not_fit_into_is_refused(tmp_path: Path) -> None:
    write_key(tmp_path / "key")
    options = {"listen": ("unix:/run/ion0",), "key": tmp_path / "key", "servers": ("unix:/run/server0",)}
    with pytest.raises(BadInput, match="--memory: must be at least 32 MiB"):
        check_options(NodeOptions(memory=LONGEST, **options))  # type: ignore[arg-type]
    assert check_options(NodeOptions(memory=2 * LONGEST, **options)).memory == 2 * LONGEST  # type: ignore[arg-type]
