"""The process behind the mount of a shared file system: it runs an I/O node and the mount, and watches the grant.

The I/O node speaks to the data servers, and the mount to the I/O node. The process ends with the grant, and then
nothing of the mount is left.
"""

import asyncio
import os
import random
import socket
import sys
import threading
import time
from pathlib import Path

from forebay.act.control.client import Client, TurnedAway, parse_service
from forebay.act.control.errors import ErrorCode
from forebay.act.forward.layer import Layer
from forebay.act.forward.layer_settings import LayerFile, Part, build_arguments
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.loop import run
from forebay.act.volumes.shared_mount import KEY, MountRecord, SharedMount
from forebay.model.compile_hooks import WITHOUT_NOTICE
from forebay.model.errors import ForebayError, UserError
from forebay.model.grant import ENDED, State

_PATIENCE = 60.0  # seconds that a request waits for a data server
_PAUSE = 10.0  # the longest time in seconds until the end of the grant is noticed
_OVER = {State.RELEASING.value, *(state.value for state in ENDED)}


def describe_layer(mount: SharedMount, record: MountRecord) -> LayerFile:
    """An I/O node in front of the grant's data servers, and the mount in front of it."""
    key, listen = mount.folder / KEY, f"unix:{mount.folder}/ion"
    ion = build_arguments(
        "ion", listen=listen, key=key, server=record.servers, patience=f"{_PATIENCE:g} s",
        name=f"{socket.gethostname()} {mount.path}"[-200:],
    )  # fmt: skip
    options = {"everybody": record.everybody, "job": record.job or None, "patience": f"{1.5 * _PATIENCE:g} s"}
    command = build_arguments("mount", nodes=listen, key=key, replace=True, **options)
    return LayerFile(
        folder=mount.folder,
        key=key,
        servers=(),
        council=(),
        ions=(Part(name="ion", arguments=ion, addresses=(parse_address(listen),)),),
        mounts=(Part(name="mount", arguments=(command[0], record.path, *command[1:])),),
    )


def watch_grant(record: MountRecord) -> None:
    """Return when the grant is being released, has ended or is unknown, not when the service does not answer."""
    token, authority = (Path(text) if text else None for text in (record.token, record.authority))
    with Client(parse_service(record.service), token=token, authority=authority, patience=0.0) as client:
        while True:
            time.sleep(_PAUSE * random.uniform(0.5, 1.0))  # many nodes may have mounted it at the same time
            try:
                if client.grant(record.grant)["state"] in _OVER:
                    return
            except TurnedAway as error:
                if error.code is ErrorCode.NOT_FOUND:
                    return
            except UserError:
                pass


def main(argv: list[str]) -> int:
    """Run until a signal comes, or the grant ends. The argument is the file with this process's id."""
    os.environ[WITHOUT_NOTICE] = "1"
    folder = Path(argv[0]).parent
    mount = SharedMount(folder.parent / folder.name[1:].removesuffix(".mount"))
    record = mount.read_record()
    if record is None:
        print("forebay: the mount has no record", file=sys.stderr)
        return 2

    def say(line: str) -> None:
        print(f"forebay: {line}", file=sys.stderr, flush=True)

    is_over = threading.Event()

    async def serve(end: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()

        def watch() -> None:
            watch_grant(record)
            is_over.set()
            loop.call_soon_threadsafe(end.set)

        def report_ready() -> None:
            sys.stdout.write("mount ready\n")  # in one piece: its reader leaves after the first
            sys.stdout.flush()
            threading.Thread(target=watch, name="watch", daemon=True).start()

        await Layer(describe_layer(mount, record), say).run(end, report_ready)

    try:
        run(serve)
    except ForebayError as error:
        say(str(error))
        return 2
    if is_over.is_set():
        mount.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
