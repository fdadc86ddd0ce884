"""A whole forwarding layer of real processes, each of which a test can kill and start again."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forebay.act.forward.clients.sync import Client
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key, write_key
from support.nursery import Child, shared_nursery
from support.processes import PATIENCE


class Part:
    """One process of the layer: `forebay forward` and these words. It says in one line that it is ready."""

    def __init__(self, *words: str) -> None:
        self._words = ("forward", *words)
        self._child: Child | None = None
        self.mounts = words[0] == "mount"

    def begin(self) -> None:
        assert self._child is None
        self._child = shared_nursery().start(self._words)

    def wait_ready(self) -> None:
        """Until it is ready."""
        assert self._child is not None
        if not self._child.wait_ready():
            raise AssertionError(f"{self._words}: ended with {self._child.wait_gone()}")

    def start(self) -> None:
        self.begin()
        self.wait_ready()

    def end(self, number: int) -> int:
        """With this signal; what it ended with."""
        assert self._child is not None
        code = self._child.end(number)
        self._child = None
        return code

    def signal(self, number: int) -> None:
        assert self._child is not None
        self._child.signal(number)

    def kill(self) -> None:
        if self._child is not None:
            self.end(signal.SIGKILL)

    def stop(self) -> None:
        if self._child is not None:
            self.end(signal.SIGTERM)


class Layer:
    """Data servers, I/O nodes before them, and mounts; sockets and data are under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key_file = folder / "key"
        write_key(self.key_file)
        self.key = read_key(self.key_file)
        self.servers: list[Part] = []
        self.nodes: list[Part] = []
        self.addresses: list[Address] = []
        self._parts: list[Part] = []

    def add_servers(self, count: int, places: Sequence[Path] = (), more: Sequence[Sequence[str]] = ()) -> None:
        """Their data are under `folder`, or in `places`, as far as there are any; `more` are options of each."""
        own = [*places, *(self.folder / f"data{index}" for index in range(len(places), count))]
        self.servers = [
            self.part(
                "server", "--folder", str(place), "--listen", self._socket(f"s{index}"), "--index", str(index),
                "--of", str(count), "--stripe-size", "64 KiB", *(more[index] if more else ()),
            )
            for index, place in enumerate(own)
        ]  # fmt: skip

    def add_nodes(self, count: int, *options: str) -> None:
        servers = [w for index in range(len(self.servers)) for w in ("--server", self._socket(f"s{index}"))]
        for index in range(count):
            where = self._socket(f"ion{index}")
            words = ("ion", "--listen", where, "--index", str(index), "--name", f"ion{index}", *servers, *options)
            self.nodes.append(self.part(*words))
            self.addresses.append(parse_address(where))

    def add_council(self, *options: str) -> tuple[Part, str]:
        address = self._socket("council")
        return self.part("council", "--listen", address, *options), address

    def add_mount(self, name: str = "mnt", *options: str) -> tuple[Part, Path]:
        point = self.folder / name
        point.mkdir(exist_ok=True)
        nodes = ",".join(map(str, self.addresses))
        return self.part("mount", str(point), "--nodes", nodes, *options), point

    def part(self, *words: str) -> Part:
        made = Part(*words, "--key", str(self.key_file))
        self._parts.append(made)
        return made

    def client(self, patience: float = 30.0, connections: int = 8) -> Client:
        return Client(self.addresses, self.key, patience=patience, connections=connections)

    def stop(self) -> None:
        """Mounts properly, since the kernel would keep them; of the others nothing is kept."""
        for part in reversed(self._parts):
            part.stop() if part.mounts else part.kill()

    def _socket(self, name: str) -> str:
        return f"unix:{self.folder / name}"


def start(*parts: Part) -> None:
    """All at once, and wait for all."""
    for part in parts:
        part.begin()
    for part in parts:
        part.wait_ready()


@contextmanager
def layer() -> Iterator[Layer]:
    """In a folder of its own with a short path, since a socket's has to be short; all of it is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        made = Layer(Path(folder))
        try:
            yield made
        finally:
            made.stop()


def unmount(point: Path) -> None:
    subprocess.run(["fusermount3", "-u", "-z", str(point)], check=True, timeout=PATIENCE)
