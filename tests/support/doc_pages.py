"""The documentation's pages as values: what they show of commands, and of what these print.

A fence ```console holds commands after a prompt: `$ ` of a user, `# ` of root. A line that ends in a backslash goes
on, and so does a command whose next line starts with `> `. All other lines are what is printed: each is there, in
that order; `…` inside a line stands for anything, and a line of `…` or `[…]` alone for any lines. `exit code 2` as
the last line says how the command ends [0]. Above a fence, `<!-- run: COMMAND -->` is what is run in its stead, and
`<!-- not run: REASON -->` says why it is not. `setting: NAME` in a page's front matter, or a
comment in its stead, says where its commands run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
_COMMENT = re.compile(r"\s*<!-- (not run|run):(.*?)-->\s*", re.DOTALL)
_PROMPT = re.compile(r"([$#]) (.*)")
_CODE = re.compile(r"exit code (\d+)")
_GAPS = ("…", "[…]")


class Unclear(Exception):
    """A page that does not keep to the convention; it says where and why."""


@dataclass(frozen=True, kw_only=True)
class Command:
    line: int
    """Of the page, from 1."""
    root: bool
    text: str
    shown: tuple[str, ...] = ()
    """Lines that it prints, but not necessarily all of them."""
    code: int = 0

    @property
    def background(self) -> bool:
        return re.sub(r"\s{2,}# .*", "", self.text).rstrip().endswith("&")


@dataclass(frozen=True, kw_only=True)
class Fence:
    line: int
    language: str
    text: str
    commands: tuple[Command, ...] = ()
    """What is run of it."""
    reason: str | None = None
    """Why nothing of it is run, if it says so."""


@dataclass(frozen=True, kw_only=True)
class Page:
    name: str
    """From the repository's root."""
    setting: str
    fences: tuple[Fence, ...]
    words: tuple[tuple[int, str], ...]
    """What stands between single backquotes in its text, and on which line that paragraph starts."""

    @property
    def commands(self) -> list[Command]:
        return [command for fence in self.fences for command in fence.commands]


def all_pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and docs/*.md; what is generated has a folder of its own."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def read_page(path: Path) -> Page:
    return parse_page(str(path.relative_to(ROOT)), path.read_text())


def parse_page(name: str, text: str) -> Page:
    front, text = _front_matter(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    fences = tuple(_fences(name, tokens))
    words = tuple(
        (token.map[0] + 1 if token.map else 0, child.content)
        for token in tokens for child in token.children or () if child.type == "code_inline"
    )  # fmt: skip
    return Page(name=name, setting=front.get("setting", "plain"), fences=fences, words=words)


def _front_matter(text: str) -> tuple[dict[str, str], str]:
    """Its keys, and the text with blank lines in its stead, so that all other lines keep their numbers."""
    found = re.match(r"(?:---|<!--)\n(.*?\n)(?:---|-->)\n", text, re.DOTALL)
    if found is None:
        return {}, text
    keys = dict(re.findall(r"^(\w+):\s*(\S+)\s*$", found[1], re.MULTILINE))
    return keys, "\n" * found[0].count("\n") + text[found.end() :]


def _fences(name: str, tokens: list[Token]) -> Iterator[Fence]:
    before = ""
    for token in tokens:
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            yield _fence(f"{name}:{token.map[0] + 1}", token, before)
        before = token.content if token.type == "html_block" else ""


def _fence(where: str, token: Token, before: str) -> Fence:
    assert token.map is not None
    line, language = token.map[0] + 1, token.info.strip()
    if not language:
        raise Unclear(f"{where}: a block that does not say its language; ```console for commands, ```text for others")
    if language != "console" and (found := re.search(r"^\s*\$ .*", token.content, re.MULTILINE)):
        raise Unclear(f"{where}: a command in a block of {language}, not of console: {found[0].strip()}")
    asked = dict(_COMMENT.findall(before))
    reason = asked.get("not run")
    if reason is not None and not reason.strip():
        raise Unclear(f"{where}: `not run` says no reason")
    if language != "console" or reason is not None:
        return Fence(line=line, language=language, text=token.content, reason=reason)
    commands = tuple(_commands(where, token.content, line + 1))
    if "run" in asked:
        commands = (Command(line=line, root=commands[0].root, text=asked["run"].strip()),)
    return Fence(line=line, language=language, text=token.content, commands=commands)


def _commands(where: str, text: str, start: int) -> Iterator[Command]:
    lines = list(enumerate(text.splitlines(), start))
    if not lines or not _PROMPT.fullmatch(lines[0][1]):
        raise Unclear(f"{where}: a block of console starts with a prompt, `$ ` or `# `")
    while lines:
        line, first = lines.pop(0)
        found = _PROMPT.fullmatch(first)
        assert found is not None
        written = [found[2]]
        while lines and (written[-1].endswith("\\") or lines[0][1].startswith("> ") or lines[0][1] == ">"):
            more = lines.pop(0)[1]
            written.append(more[2:] if more.startswith(">") else more)
        shown = []
        while lines and not _PROMPT.fullmatch(lines[0][1]):
            shown.append(lines.pop(0)[1].rstrip())
        code = _CODE.fullmatch(shown[-1]) if shown else None
        wanted = tuple(shown[:-1] if code else shown)
        yield Command(
            line=line, root=found[1] == "#", text="\n".join(written), shown=wanted, code=int(code[1]) if code else 0
        )


def first_missing(shown: tuple[str, ...], printed: str) -> str | None:
    """The first line that is shown, but is not printed after those before it."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    for line in shown:
        if line.strip() in ("", *_GAPS):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        if not any(wanted.fullmatch(found) for found in lines):
            return line
    return None
