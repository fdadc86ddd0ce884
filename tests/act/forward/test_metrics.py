"""What parts of the forwarding layer tell Prometheus."""

from pathlib import Path

from forebay.act.forward.layer_settings import read_layer
from forebay.act.forward.net.wire import Kind
from forebay.act.metrics import Metric
from generate.metrics import PARTS
from support.forward import Speaker, data_server, unix
from support.metrics import values_of


def test_a_data_server_shows_all_that_is_declared(tmp_path: Path) -> None:
    where = unix(tmp_path, "server")
    with data_server(tmp_path / "data", where, timeout=60.0) as (_, server), Speaker(server.address) as node:
        node.ask(Kind.WRITE, file=1, payload=b"abcd")
        found = values_of(server.metrics())
    assert {key[0] for key in found} == {metric.name for metric in PARTS["data server"]}
    assert (found["forebay_server_writes",], found["forebay_server_bytes_written",]) == (1, 4)
    assert (found["forebay_server_info", "0"], found["forebay_server_nodes",]) == (1, 1)
    assert found["forebay_server_events", "denied"] == 0, "one that rises must be there before"
    assert ("forebay_server_events", "writes") not in found


def test_what_is_known_is_there_before_it_happens() -> None:
    metric = Metric("forebay_x", "X.", ("event",), "counter")
    assert list(values_of(metric.counts({"b": 2, "new": 1}, ("a", "b"))).items()) == [
        (("forebay_x", "a"), 0), (("forebay_x", "b"), 2), (("forebay_x", "new"), 1),
    ]  # fmt: skip


def test_a_layers_file_says_where_each_part_shows_them(tmp_path: Path) -> None:
    path = tmp_path / "layer.toml"
    path.write_text(
        '[[server]]\naddress = "unix:/x/s"\nfolder = "d"\nmetrics = "127.0.0.1:1"\n'
        '[[ion]]\naddress = "unix:/x/i"\nmetrics = "127.0.0.1:2"\n[council]\nmetrics = "127.0.0.1:3"\n'
    )
    told = [part.arguments[part.arguments.index("--metrics") + 1] for part in read_layer(path).parts]
    assert told == ["127.0.0.1:1", "127.0.0.1:3", "127.0.0.1:2"]
