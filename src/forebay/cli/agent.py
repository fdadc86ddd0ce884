"""`forebay agent`: the agent of a storage node."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.signals import end_on_signals
from forebay.model.errors import ForebayError
from forebay.show.options import Json
from forebay.show.output import announce, print_lines

if TYPE_CHECKING:
    from forebay.act.control.agent.settings import AgentFile

commands = typer.Typer()
File = Annotated[Path, typer.Argument(help="TOML file of the node, as in examples/agent.toml.")]
Check = Annotated[bool, typer.Option("--check", help="Only check the file and its disks.")]


@commands.command(epilog="Example: forebay agent examples/agent.toml --check")
def agent(file: File, check: Check = False, json: Json = False) -> None:
    """Run the agent that manages a storage node's volumes. Ctrl-C ends it."""
    from forebay.act.control.agent.settings import read_agent

    agent_file = read_agent(file)
    document = {"node": agent_file.settings.node, "disks": list(agent_file.node.disks)}
    if check:
        for disk in agent_file.node.disks.values():
            disk.volumes.check()
        _report_shortages(agent_file)
        announce({"file": str(file), **document}, f"{file}: valid: {', '.join(document['disks'])}", json_line=json)
        return
    from forebay.act.control.agent.agent import Agent

    _report_shortages(agent_file)
    running = Agent(agent_file, lambda line: print_lines(f"forebay: {line}", err=True))
    ended = end_on_signals()
    running.start()
    announce({"ready": "agent", **document}, f"agent ready: node {document['node']}", json_line=json)
    ended.wait()
    running.stop()


def _report_shortages(agent_file: AgentFile) -> None:
    """Say which disks offer less than their settings promise."""
    for disk in agent_file.node.disks.values():
        with suppress(ForebayError, OSError):  # a disk that is not there now is reported later
            if shortage := disk.describe_shortage():
                print_lines(f"forebay: warning: {shortage}", err=True)
