"""Pages for files of the repository that other pages link to, so that the links work in the site, too.

A page links to ../examples/serve.toml; in the site that is files/examples/serve.toml.md, which shows the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from generate.markdown import page

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")
_LANGUAGES = {".toml": "toml", ".py": "python", ".json": "json", ".yml": "yaml", ".lua": "lua", ".service": "ini",
              ".timer": "ini", ".sh": "bash"}  # fmt: skip


def file_pages(docs: Path) -> dict[str, str]:
    """Name under docs/files -> text, for all files that pages link to, and those that these link to in turn."""
    own = [path for path in docs.rglob("*.md") if not {"_build", "files"} & set(path.relative_to(docs).parts)]
    todo = [target for path in own for target in _shown_in(path, docs)]
    made: dict[str, str] = {}
    while todo:
        target = todo.pop()
        name = _name(target, docs)
        if name not in made:
            made[name] = _page(target, docs)
            todo += _shown_in(target, docs) if target.suffix == ".md" else _files_in(target)
    return made


def relinked(text: str, page: Path, at: Path, docs: Path) -> str:
    """The text of `page` with its links as they must be in the site, where it stands `at` another place."""

    def moved(match: re.Match[str]) -> str:
        target = _normal(page.parent / match[1])
        if not target.exists():
            return match[1]
        inside = docs / "files" / _name(target, docs) if _is_shown(target, docs) else target
        return os.path.relpath(inside, at.parent)

    return _LINK.sub(moved, text)


def _shown_in(page: Path, docs: Path) -> list[Path]:
    """The files that a page links to and that are no pages themselves."""
    found = {_normal(page.parent / link) for link in _LINK.findall(page.read_text())}
    return sorted(path for path in found if _is_shown(path, docs))


def _is_shown(path: Path, docs: Path) -> bool:
    """Somewhere in the repository, and neither a page of the site nor a picture."""
    if not path.exists() or docs.parent not in path.parents or path == docs or path.suffix in (".png", ".svg"):
        return False
    return not (path.suffix == ".md" and docs in path.parents)


def _page(target: Path, docs: Path) -> str:
    title = str(target.relative_to(docs.parent))
    if target.is_dir():
        lines = [f"- [{path.name}]({target.name}/{path.name}.md)" for path in _files_in(target)]
        return _orphan(page(f"`{title}`", "\n".join(lines)))
    text = target.read_text()
    if target.suffix == ".md":
        return _orphan(relinked(text, target, docs / "files" / _name(target, docs), docs))
    return _orphan(page(f"`{title}`", f"`````{_LANGUAGES.get(target.suffix, 'text')}\n{text.rstrip()}\n`````"))


def _orphan(text: str) -> str:
    return f"---\norphan: true\n---\n\n{text}"


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _name(target: Path, docs: Path) -> str:
    return f"{target.relative_to(docs.parent)}.md"


def _normal(path: Path) -> Path:
    """Without `..`, and with links as they are."""
    return Path(os.path.normpath(path))
