import pytest

from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.wire import LONGEST
from forebay.act.forward.node.io_node import NodeSettings
from forebay.act.forward.node.process import choose_backend, run_node
from forebay.model.errors import BadInput
from forebay.model.layout import Layout


def test_memory_that_the_longest_message_does_not_fit_into_is_refused() -> None:
    backend = choose_backend(("unix:/run/server0",), None, "given", 1, Layout(count=1))

    def start(memory: int, db: str | None = None) -> None:
        settings = NodeSettings(name="n", address=(parse_address("unix:/run/ion0"),), key=b"k" * 16, memory=memory)
        run_node(settings, backend, lambda _node, _metrics: None, council="unix:/run/council", db=db)

    with pytest.raises(BadInput, match="--memory: must be at least 32 MiB"):
        start(LONGEST)
    with pytest.raises(BadInput, match="--db"):  # what is checked next
        start(2 * LONGEST, db="none")
