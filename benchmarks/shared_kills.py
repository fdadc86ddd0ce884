"""A job's own file system while any of its processes is killed: nothing that was acknowledged may be lost.

    sudo .venv/bin/python benchmarks/shared_kills.py [--kills N] [--seed N]

Goal: 50 kill -9, none of which loses anything. Four data servers on two storage nodes; programs write on the mount
while trees are staged in and out. A seed decides what is killed, and when: a data server, an agent, the service, a
copying process, the I/O node or the mount of the compute node, or the process behind both. Programs note what they
have synced, and try again after an error; in the end, all of that must be there, also after a restart of all data
servers, and all trees that were staged must be complete.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path

from bench import verdict

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from forebay.act.control.client import Client  # noqa: E402
from forebay.act.staging.copier import PIECE  # noqa: E402
from forebay.act.volumes.shared_mount import PID, SharedMount  # noqa: E402
from support.control_processes import Process, System, control_system  # noqa: E402
from support.users import ORDINARY  # noqa: E402

MB = 10**6
BLOCK, BLOCKS = 40_000, 50
"""A block reaches over the end of a stripe now and then."""
WRITERS = 3
PATIENCE = 300.0
_AGAIN = 0.2


def become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def content(writer: int, number: int) -> bytes:
    chance = random.Random(writer * 1_000_003 + number)
    return chance.randbytes(chance.choice((0, 100, 4096, 70_000)))


def block(writer: int, version: int) -> bytes:
    return random.Random(f"{writer} {version}").randbytes(BLOCK)


def insist(step: Callable[[], None], errors: list[str]) -> None:
    """Do a step until it succeeds: a program whose mount is killed gets errors."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return step()
        except OSError as error:
            errors.append(os.strerror(error.errno or 0))
            if time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN)


def write_synced(path: Path, data: bytes, offset: int = 0) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        assert os.pwrite(file, data, offset) == len(data)
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: Path) -> None:
    with suppress(FileNotFoundError):  # an attempt that got an error may have removed it
        path.unlink()


def write_files(writer: int, point: Path, notes: Path, end: Event) -> None:
    """Create files, rename every third, remove some, and overwrite blocks of one; note each when it is synced."""
    with notes.open("a", buffering=1) as log:
        become(ORDINARY)
        folder, number = point / f"writer{writer}", 0
        errors: list[str] = []
        insist(lambda: folder.mkdir(exist_ok=True), errors)
        while not end.is_set():
            path, data = folder / str(number), content(writer, number)
            insist(lambda: write_synced(path, data), errors)  # noqa: B023
            print("file", number, file=log)
            if number % 3 == 0:
                print("renaming", number, file=log)
                insist(lambda: rename(path, folder / f"{number}.renamed"), errors)  # noqa: B023
                insist(lambda: write_synced(folder / "sync", b""), errors)  # an fsync of any file writes all names
                print("renamed", number, file=log)
            if number % 5 == 4:
                print("removing", number, file=log)
                insist(lambda: remove(path), errors)  # noqa: B023
                insist(lambda: write_synced(folder / "sync", b""), errors)
                print("removed", number, file=log)
            place = number % BLOCKS
            insist(lambda: write_synced(folder / "blocks", block(writer, number), place * BLOCK), errors)  # noqa: B023
            print("block", number, file=log)
            number += 1
        print("errors", len(errors), file=log)


def rename(path: Path, new: Path) -> None:
    try:
        path.rename(new)
    except FileNotFoundError:  # an attempt that got an error may have renamed it
        new.stat()


def find_lost(writer: int, point: Path, notes: Path) -> list[str]:
    """What the notes of a writer promise and the mount does not have."""
    lost, names, blocks, folder = [], dict[int, str | None](), dict[int, int](), point / f"writer{writer}"
    for line in notes.read_text().splitlines():
        what, _, text = line.partition(" ")
        number = int(text)
        if what == "file":
            names[number] = str(number)
        elif what == "renamed":
            names[number] = f"{number}.renamed"
        elif what == "removed":
            names[number] = None
        elif what == "block":
            blocks[number % BLOCKS] = number
    for number, name in names.items():
        if name is None:
            if (folder / str(number)).exists():
                lost.append(f"{folder}/{number} was removed and is there")
        elif read(folder / name) != content(writer, number):
            lost.append(f"{folder}/{name}")
    with (folder / "blocks").open("rb") as file:
        for place, version in blocks.items():
            file.seek(place * BLOCK)
            if file.read(BLOCK) != block(writer, version):
                lost.append(f"{folder}/blocks: block {place}, version {version}")
    return lost


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def make_tree(path: Path, files: int, chance: random.Random) -> None:
    for number in range(files):
        folder = path / f"d{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_bytes(chance.randbytes(chance.choice((0, 10, 4096, 100_000))))
    (path / "large").write_bytes(chance.randbytes(2 * PIECE + 12_345))
    subprocess.run(("chown", "-R", f"{ORDINARY}:{ORDINARY}", str(path.parent)), check=True)


class Staging:
    """Stages one tree in, and out again, again and again; each staging must end well and bring all files."""

    def __init__(self, client: Client, grant: str, home: Path) -> None:
        self.client, self.grant, self.home = client, grant, home
        self.number, self.done = 0, 0
        self._key = ""
        self._begin()

    def _begin(self) -> None:
        way = "out" if self.number % 2 else "in"
        pair = (f"tree{self.number - 1}", str(self.home / f"out{self.number}"))
        if way == "in":
            pair = str(self.home / "in"), f"tree{self.number}"
        self._key = f"{way} {self.number}"
        self.client.stage(self.grant, way, [pair], key=self._key)

    def look(self) -> None:
        """Begin the next one, if this one has ended."""
        staging = self.client.grant(self.grant)["staging"]
        assert staging is not None
        if staging["state"] == "running":
            return
        assert staging["state"] == "done", staging
        if self.number % 2:
            out = self.home / f"out{self.number}"
            subprocess.run(("diff", "-r", "-q", str(self.home / "in"), str(out)), check=True)
            subprocess.run(("rm", "-r", str(out)), check=True)
        self.done += 1
        self.number += 1
        self._begin()

    def finish(self) -> None:
        """Wait for the running one; after an odd number of them, the tree is also staged out again."""
        until = self.done + 1 + (self.number + 1) % 2
        deadline = time.monotonic() + PATIENCE
        while self.done < until:
            assert time.monotonic() < deadline, self.client.grant(self.grant)["staging"]
            time.sleep(_AGAIN)
            self.look()


def find_processes(*words: str) -> list[int]:
    """The processes that have all these words in their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in arguments for word in words) and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


class Victims:
    """Everything that can be killed, by name; each returns whether there was such a process."""

    def __init__(self, system: System, grant: str, mount: SharedMount) -> None:
        self.system, self.grant, self.mount = system, grant, mount
        self.kinds: dict[str, Callable[[random.Random], bool]] = {
            "data server": lambda chance: self._kill(chance, "forward server", grant),
            "copying process": lambda chance: self._kill_copier(chance),
            "I/O node of the mount": lambda chance: self._kill(chance, "forward ion", str(mount.folder)),
            "mount": lambda chance: self._kill(chance, "forward mount", str(mount.path)),
            "process behind the mount": self._kill_keeper,
            "agent": lambda chance: self._restart(chance.choice(list(system.agents.values()))),
            "service": lambda _: self._restart(system.service),
        }

    def _kill(self, chance: random.Random, *words: str) -> bool:
        processes = find_processes(*words)
        if processes:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(processes), signal.SIGKILL)
        return bool(processes)

    def _kill_copier(self, chance: random.Random) -> bool:
        """One of this site: others may test on the same machine."""
        own = [
            process
            for process in find_processes("forebay.act.staging.process")
            if any(str(self.system.folder) in name for name in open_files(process))
        ]
        if own:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(own), signal.SIGKILL)
        return bool(own)

    def _kill_keeper(self, _: random.Random) -> bool:
        with suppress(OSError, ValueError):
            os.kill(int((self.mount.folder / PID).read_text()), signal.SIGKILL)
        self.remount()
        return True

    def remount(self) -> None:
        done = self.system.command("mount", self.grant, "--at", str(self.mount.path))
        assert done.returncode == 0, done.stderr

    def _restart(self, process: Process) -> bool:
        process.kill()
        process.start()
        return True


def open_files(process: int) -> list[str]:
    with suppress(OSError):
        return [str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir()]
    return []


def run(system: System, kills: int, chance: random.Random) -> list[str]:
    """Kill so many processes, and return what is lost."""
    home = system.folder / "home"
    make_tree(home / "in", 200, chance)
    os.chown(home, ORDINARY, ORDINARY)
    with system.client(PATIENCE) as client:
        request = client.request(1000 * MB, "2h", type="shared", servers=4, uid=ORDINARY, gid=ORDINARY)
        *_, grant = client.follow(request, PATIENCE)
        assert grant["state"] == "ready", grant["because"]
        mount = SharedMount(system.folder / "mnt")
        victims = Victims(system, grant["id"], mount)
        victims.remount()
        notes = [system.folder / f"notes{writer}" for writer in range(WRITERS)]
        try:
            staging = Staging(client, grant["id"], home)
            with writing(mount.path, notes):
                killed = kill_several(victims, staging, kills, chance)
            staging.finish()
            lost = []
            for when in ("at the end", "after a restart of all data servers"):
                for number, log in enumerate(notes):
                    lost += [f"{each} ({when})" for each in find_lost(number, mount.path, log)]
                for process in find_processes("forward server", grant["id"]):
                    os.kill(process, signal.SIGKILL)
        finally:
            mount.unmount()
    told = Counter(line.split()[0] for log in notes for line in log.read_text().splitlines())
    errors = sum(int(log.read_text().split()[-1]) for log in notes)
    print(f"{killed.total()} kills: {', '.join(f'{count} {kind}' for kind, count in sorted(killed.items()))}")
    print(
        f"acknowledged: {told['file']} files, {told['renamed']} renamed, {told['removed']} removed, {told['block']} "
        f"blocks; {staging.done} stagings; {errors} errors reached programs, which tried again"
    )
    return lost


@contextmanager
def writing(point: Path, notes: list[Path]) -> Iterator[None]:
    """Programs write meanwhile; at the end, each completes its step."""
    end = multiprocessing.Event()
    writers = [
        multiprocessing.Process(target=write_files, args=(number, point, log, end)) for number, log in enumerate(notes)
    ]
    for writer in writers:
        writer.start()
    try:
        yield
        end.set()
        for writer in writers:
            writer.join(PATIENCE)
        assert [writer.exitcode for writer in writers] == [0] * len(writers), "a program did not end well"
    finally:
        for writer in writers:
            writer.kill()


def kill_several(victims: Victims, staging: Staging, kills: int, chance: random.Random) -> Counter[str]:
    killed = Counter[str]()
    while killed.total() < kills:
        time.sleep(chance.uniform(0.05, 1.5))
        kind = chance.choice(list(victims.kinds))
        if victims.kinds[kind](chance):
            killed[kind] += 1
        staging.look()
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.getuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: this needs root and /dev/fuse")
        return 0
    with control_system() as system:
        system.folder.chmod(0o755)
        for node in ("n1", "n2"):
            system.add_agent(node, "loop", "loop", capacity="500 MB")
        system.start()
        lost = run(system, options.kills, random.Random(options.seed))
    for each in lost:
        print(f"lost: {each}")
    print(f"lost: {len(lost)}, goal 0, {verdict(not lost)}")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
