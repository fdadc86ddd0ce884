import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from threading import Event, Thread

import pytest

from forebay.act.command import Child, run_unchecked
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.layer import prepare
from forebay.act.forward.layer_settings import LayerFile, read_layer
from forebay.act.forward.net.key import read_key
from forebay.model.errors import UserError

LONG = 120.0
EXAMPLE = Path(__file__).parents[3] / "examples" / "forward.toml"


def layer(folder: Path, text: str) -> LayerFile:
    file = folder / "layer.toml"
    file.write_text(text)
    return read_layer(file)


def test_an_empty_file_is_four_servers_and_a_node(tmp_path: Path) -> None:
    found = layer(tmp_path, "")
    assert [part.name for part in found.parts] == [*(f"server[{i}]" for i in range(4)), "ion[0]"]
    assert found.folder == tmp_path / "layer"


def test_the_example_is_a_layer_with_a_council() -> None:
    names = [part.name for part in read_layer(EXAMPLE).parts]
    assert names == [*(f"server[{i}]" for i in range(4)), "council", "ion[0]", "ion[1]"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[[server]]\naddress = "h:7000"\nfolder = "a"\n[[server]]\naddress = "h:7000"\nfolder = "b"',
            r"server\[0\] and server\[1\] both listen at h:7000",
        ),
        (
            '[[server]]\naddress = "0.0.0.0:7000"\nfolder = "a"\n[[ion]]\naddress = ["unix:/x", "127.0.0.1:7000"]',
            r"server\[0\] and ion\[0\] both listen at 127.0.0.1:7000",
        ),
        (
            '[[ion]]\naddress = "unix:/s"\n[council]\naddress = "unix:/s"',
            r"ion\[0\] and council both listen at unix:/s",
        ),
        (
            '[[server]]\naddress = "h:1"\nfolder = "a"\n[[server]]\naddress = "h:2"\nfolder = "./a"',
            r"server\[0\] and server\[1\] both keep their data in",
        ),
        (
            '[[server]]\naddress = "h:1"\nfolder = "a"\n[[server]]\naddress = "h:2"\nfolder = "a/b"',
            r"server\[0\] and server\[1\] both keep their data in",
        ),
        ("[layer]\nservers = 0", "layer.servers"),
        ('[layer]\nservers = 2\n[[server]]\naddress = "h:1"\nfolder = "a"', "layer.servers: conflicts with"),
        ('[layer]\nscheduler = "twin"', "layer.scheduler: no request scheduler 'twin'"),
        ('[layer]\nstripe_size = "1000 B"', "layer.stripe_size: a stripe size must be"),
        ('[[ion]]\naddress = "nowhere"', r"ion\[0\].address: must be like"),
        ('[layer]\nwindows = "1 ms"', "layer.windows: is not a key of this table"),
        ('[council]\ntuner = "epsilon"', "council.tuner: no"),
        ("[layer", "is not TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        layer(tmp_path, text)
    assert str(tmp_path / "layer.toml") in str(error.value)
    assert "\n" not in str(error.value)


def test_ports_that_the_system_chooses_are_never_the_same(tmp_path: Path) -> None:
    text = '[[server]]\naddress = "h:0"\nfolder = "a"\n[[server]]\naddress = "h:0"\nfolder = "b"'
    assert len(layer(tmp_path, text).servers) == 2


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    found = layer(tmp_path, "")
    prepare(found)
    assert stat.S_IMODE(found.key.stat().st_mode) == 0o600
    key = read_key(found.key)
    prepare(found)
    assert read_key(found.key) == key


class Up:
    """`forebay forward up`, for real."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file = layer(folder, text)
        self.child = Child((sys.executable, "-m", "forebay", "forward", "up", str(folder / "layer.toml")), quiet=True)
        self._wait(b"ready")

    def _wait(self, words: bytes) -> None:
        said = b""
        while words not in said:
            assert select([self.child.out], [], [], LONG)[0]
            more = os.read(self.child.out, 4096)
            assert more
            said += more

    def processes(self, what: str) -> list[int]:
        """The children whose command has these words."""
        found = []
        for pid in Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if what in command:
                found.append(int(pid))
        return found

    def client(self) -> Client:
        nodes = [address for ion in self.file.ions for address in ion.addresses]
        return Client(nodes, read_key(self.file.key), patience=LONG)


@contextmanager
def up(folder: Path, text: str) -> Iterator[Up]:
    made = Up(folder, text)
    try:
        yield made
    finally:
        made.child.stop(LONG)


def test_every_acknowledged_byte_is_there_after_parts_were_killed_under_load(tmp_path: Path) -> None:
    """Two clients write blocks of their own while an I/O node, a data server and the names' server are killed."""
    text = '[layer]\nservers = 2\nions = 2\nstripe_size = "64 KiB"\nscheduler = "twins-work-conserving"'
    with up(tmp_path, text) as layer:
        enough = Event()
        written: dict[str, dict[int, int]] = {"a": {}, "b": {}}
        writers = [Thread(target=write_until, args=(layer, name, written[name], enough)) for name in written]
        for writer in writers:
            writer.start()
        for what in ("forward ion", "server1 ", "server0 ", "forward ion"):
            progress(written)
            os.kill(layer.processes(what)[0], signal.SIGKILL)
        progress(written)
        enough.set()
        for writer in writers:
            writer.join(LONG)
        with layer.client() as client:
            for name, blocks in written.items():
                assert check(client, name, blocks) == []
        all_of_them = [os.pidfd_open(pid) for pid in (layer.child.pid, *layer.processes("forward"))]
        layer.child.signal(signal.SIGINT)
        for handle in all_of_them:
            assert select([handle], [], [], LONG)[0]
            os.close(handle)
    assert layer.child.code == 0


BLOCK = 160 << 10  # more than a stripe


def block(name: str, number: int, turn: int) -> bytes:
    return (f"{name}{number:08}{turn:08}".encode() * (BLOCK // 17 + 1))[:BLOCK]


def write_until(layer: Up, name: str, written: dict[int, int], enough: Event) -> None:
    with layer.client() as client, client.open(f"/{name}", os.O_RDWR | os.O_CREAT) as file:
        turn = 0
        while not enough.is_set():
            number = turn % 50
            file.pwrite(block(name, number, turn), number * BLOCK)
            written[number] = turn
            turn += 1


def progress(written: dict[str, dict[int, int]]) -> None:
    """Wait until each has had some more blocks acknowledged."""
    before = {name: max(blocks.values(), default=-1) for name, blocks in written.items()}
    pause = Event()
    for _ in range(int(LONG / 0.02)):
        if all(max(blocks.values(), default=-1) >= before[name] + 20 for name, blocks in list(written.items())):
            return
        pause.wait(0.02)
    raise AssertionError("nothing is written any more")


def check(client: Client, name: str, blocks: dict[int, int]) -> list[int]:
    """The blocks that are not as they were acknowledged; the last one begun may have been written again."""
    with client.open(f"/{name}", os.O_RDONLY) as file:
        last = max(blocks.values())
        wrong = []
        for number, turn in blocks.items():
            found = file.pread(BLOCK, number * BLOCK)
            if found != block(name, number, turn) and found != block(name, number, last + 1):
                wrong.append(number)
        return wrong


def test_a_part_that_can_not_start_ends_the_layer_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "layer" / "data0").mkdir(parents=True)
    (tmp_path / "layer" / "data0" / "mine").touch()
    (tmp_path / "layer.toml").write_text("[layer]\nservers = 2")
    words = ("-m", "forebay", "forward", "up", str(tmp_path / "layer.toml"))
    done = run_unchecked((sys.executable, *words), timeout=LONG)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith("forebay: server[0]: ended before it was ready (exit 2)")
    assert "Traceback" not in done.err
