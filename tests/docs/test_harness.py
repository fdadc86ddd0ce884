"""What runs the documentation's commands misses nothing: not a wrong line, not a failure, not a command that hides."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.doc_machine import machine
from support.doc_options import wrong_options
from support.doc_pages import Command, Page, Unclear, first_missing, parse_page
from support.doc_shell import Failed, Shell
from support.processes import started

PATIENCE = 60.0


def page(text: str) -> Page:
    return parse_page("docs/p.md", text)


def console(*lines: str) -> Page:
    return page("\n".join(("```console", *lines, "```", "")))


@pytest.fixture
def shell() -> Iterator[Shell]:
    with started(
        ("/bin/bash",), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as bash:
        assert bash.stdin is not None and bash.stdout is not None
        yield Shell(bash.stdin.fileno(), bash.stdout.fileno())
        bash.stdin.close()


def run(shell: Shell, *lines: str) -> None:
    for command in console(*lines).commands:
        shell.check("docs/p.md", command, PATIENCE)


def test_commands_are_read_with_what_they_print_and_how_they_end() -> None:
    commands = console("$ one \\", "    more  # why", "out", "$ two", "# three", "no", "exit code 2").commands
    assert commands == [
        Command(line=2, root=False, text="one \\\n    more  # why", shown=("out",)),
        Command(line=5, root=False, text="two"),
        Command(line=6, root=True, text="three", shown=("no",), code=2),
    ]


def test_a_second_prompt_goes_on() -> None:
    (command,) = console("# cat > f <<EOF", "> [a]", ">", "> EOF", "shown").commands
    assert (command.text, command.shown) == ("cat > f <<EOF\n[a]\n\nEOF", ("shown",))


def test_the_front_matter_says_the_setting_and_lines_keep_their_numbers() -> None:
    found = page("---\nsetting: live\n---\n# Title\n\n```console\n$ ls\n```\n")
    assert (found.setting, found.commands[0].line, page("text").setting) == ("live", 7, "plain")


def test_what_is_run_instead_comes_without_what_is_shown() -> None:
    (command,) = page(
        "<!-- run: forebay study osts --sets 1 -->\n```console\n$ forebay study osts\nshown\n```\n"
    ).commands
    assert (command.text, command.shown) == ("forebay study osts --sets 1", ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```\n$ ls\n```\n", "docs/p.md:1: a block that does not say its language"),
        ("text\n\n    $ ls\n", "docs/p.md:3: a block that does not say its language"),
        ("```text\nyou type\n$ ls\n```\n", "a command in a block of text, not of console: \\$ ls"),
        ("- a list\n\n  ```sh\n  $ ls\n  ```\n", "a command in a block of sh"),
        ("<!-- not run: -->\n```console\n$ ls\n```\n", "`not run` says no reason"),
        ("```console\nls\n```\n", "starts with a prompt"),
        ("```console\n```\n", "starts with a prompt"),
    ],
)
def test_a_block_in_which_a_command_could_hide_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unclear, match=why):
        page(text)


def test_a_block_that_is_not_run_says_why() -> None:
    (fence,) = page("<!-- not run: it needs a Lustre -->\n```console\n$ lfs df\n```\n").fences
    assert (fence.commands, fence.reason) == ((), " it needs a Lustre ")


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        (("a", "c"), "a\nb\nc\n", None),
        (("c", "a"), "a\nb\nc\n", "a"),
        (("a", "a"), "a\n", "a"),
        (("a 1",), "a 12\n", "a 1"),
        (("grant …: ready, … until …",), "grant 3f0c: ready, 5 GB until 23:47\n", None),
        (("grant …: ready",), "grant 3f0c: queued\n", "grant …: ready"),
        (("a", "[…]", "…", "", "b"), "a   \nx\nb", None),
        (("a.c",), "abc", "a.c"),
    ],
)
def test_each_line_that_is_shown_is_printed_in_that_order(
    shown: tuple[str, ...], printed: str, missing: str | None
) -> None:
    assert first_missing(shown, printed) == missing


def test_commands_share_one_shell(shell: Shell) -> None:
    run(shell, "$ cd /usr; x=5; f() { echo f $x; }", "$ pwd; f", "/usr", "f 5", "$ false", "exit code 1")


def test_a_command_does_not_read_those_after_it(shell: Shell) -> None:
    run(shell, "$ cat", "$ echo still here", "still here")


def test_both_kinds_of_output_are_compared(shell: Shell) -> None:
    run(shell, "$ echo out; echo err >&2", "out", "err")


def test_a_line_that_is_not_printed_is_caught_with_all_there_is_to_know(shell: Shell) -> None:
    with pytest.raises(Failed) as caught:
        run(shell, "$ true", "$ echo 1.15", "1.14")
    assert str(caught.value).splitlines() == [
        "docs/p.md:3: echo 1.15", "exit code 0, where 0 is shown", "this line is shown, but not printed (there): 1.14",
        "what is shown:", "1.14", "what is printed:", "1.15",
    ]  # fmt: skip


def test_a_command_that_fails_is_caught(shell: Shell) -> None:
    with pytest.raises(Failed, match=r"p\.md:2: ls /nowhere\nexit code 2, where 0 is shown\n(.*\n)*.*No such file"):
        run(shell, "$ ls /nowhere")


def test_a_command_that_should_fail_and_does_not_is_caught(shell: Shell) -> None:
    with pytest.raises(Failed, match="exit code 0, where 2 is shown"):
        run(shell, "$ true", "exit code 2")


def test_a_command_that_ends_the_shell_is_caught(shell: Shell) -> None:
    with pytest.raises(Failed, match="ended the shell"):
        run(shell, "$ exit 0")


def test_what_runs_in_the_background_is_waited_for_if_it_is_shown(shell: Shell) -> None:
    run(shell, "$ (read -t 0.2 < <(sleep 9); echo ready) &  # some time", "ready", "$ echo next", "next")


@pytest.mark.parametrize(
    "text",
    [
        "$ forebay study io-nodes --curves x.csv --workers=2  # --what?",
        "# /opt/forebay/bin/forebay serve --config x.toml \\\n    --check",
        'eval "$(forebay storage request --size 1GB --time 2h --env)"; cp --archive a b',
        "make test --jobs 2",
        "forebay",
        "forebay -h && forebay storage -h | less --raw",
    ],
)
def test_commands_with_options_that_exist_are_fine(text: str) -> None:
    assert wrong_options(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$ forebay study io-nodes --curve x.csv", "there is no --curve"),
        ("# forebay serv --check", "there is no 'serv'"),
        ("forebay storage ask --size 1GB", "there is no 'ask'"),
        ("true; forebay storage list --everything | wc -l", "there is no --everything"),
        ('eval "$(forebay storage request --environment)"', "there is no --environment"),
        ("$ forebay study osts \\\n      --sett 1", "there is no --sett"),
    ],
)
def test_an_unknown_subcommand_or_option_is_caught(text: str, why: str) -> None:
    (wrong,) = wrong_options(text)
    assert wrong.endswith(why)


def test_a_machine_is_thrown_away_with_all_that_was_done_to_it(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "logs").mkdir(parents=True)
    (given / "marenostrum4.csv").write_text("application,n,bandwidth\n")
    room = tmp_path / "room"
    room.mkdir()
    lines = (
        "# echo here > /etc/forebay-was-here; setsid sleep 1000 &",
        "# truncate -s 20M image; mkfs.ext4 -q image; mkdir at; mount image at; findmnt -n -o FSTYPE at", "ext4",
        "# useradd somebody; id -un somebody", "somebody",
    )  # fmt: skip
    with machine(room, "plain", given) as here:
        for command in console(*lines).commands:
            here.check("docs/p.md", command)
    assert not Path("/etc/forebay-was-here").exists() and list(room.iterdir()) == []
    assert "somebody" not in Path("/etc/passwd").read_text().replace(":", "\n").splitlines()
