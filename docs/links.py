"""Check every link, anchor and picture of a built site: `python docs/links.py docs/_build/html`.

What is inside the site must be there. Scripts, styles, fonts and pictures must be inside. Links that readers follow to
other sites are counted and not asked for, as there may be no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

_LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src", "object": "data"}
_STYLE_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")


@dataclass
class Page(HTMLParser):
    """What a page loads, what it links to, and the places in it that can be linked to."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if value := given.get(_LOADED.get(tag, "")):
            self.loads.append(value)
        if tag == "a" and (value := given.get("href")):
            self.links.append(value)
        self.loads += _STYLE_URL.findall(given.get("style") or "")


@cache
def page_of(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def troubles(site: Path) -> Iterator[str]:
    """What is wrong, a line each."""
    for path in sorted(site.rglob("*.html")):
        page, where = page_of(path), path.relative_to(site)
        yield from (f"{where}: loads {url}, which is elsewhere" for url in page.loads if is_elsewhere(url))
        for url in (*page.loads, *page.links):
            if not is_elsewhere(url) and (wrong := _missing(path, url)):
                yield f"{where}: {url}: {wrong}"
    for path in sorted(site.rglob("*.css")):
        for url in _STYLE_URL.findall(path.read_text(encoding="utf-8")):
            if is_elsewhere(url):
                yield f"{path.relative_to(site)}: loads {url}, which is elsewhere"
            elif wrong := _missing(path, url):
                yield f"{path.relative_to(site)}: {url}: {wrong}"


def is_elsewhere(url: str) -> bool:
    return url.startswith("//") or urlsplit(url).scheme in ("http", "https", "ftp")


def _missing(page: Path, url: str) -> str:
    """Why a link inside the site leads nowhere; "" if it does not."""
    if urlsplit(url).scheme:  # data:, mailto:
        return ""
    target, anchor = urldefrag(url)
    path = page.parent / unquote(target.partition("?")[0]) if target else page
    if path.is_dir():
        path = path / "index.html"
    if not path.is_file():
        return "there is no such file"
    if anchor and path.suffix == ".html" and unquote(anchor) not in page_of(path).anchors:
        return f"there is no #{anchor}"
    return ""


def main() -> None:
    site = Path(sys.argv[1])
    found = list(troubles(site))
    pages = [page_of(path) for path in site.rglob("*.html")]
    outside = {url for page in pages for url in page.links if is_elsewhere(url)}
    for line in found:
        print(line, file=sys.stderr)
    inside = sum(len(page.loads) + len(page.links) for page in pages)
    print(
        f"{len(pages)} pages, {inside:,} links and pictures checked, {len(outside)} addresses elsewhere not asked for"
    )
    sys.exit(bool(found) or not pages)


if __name__ == "__main__":
    main()
