"""Reads pages as a browser would, and checks that they are well-formed and need nothing else."""

from html.parser import HTMLParser

_VOID = frozenset({"meta", "input", "br", "hr", "img", "link", "wbr"})
_LOADING = frozenset({"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"})


class Page(HTMLParser):
    """The text and the elements of a page; raises AssertionError if tags are unbalanced or something could be loaded
    or run."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.ids = "", list[str](), set[str]()
        self._open: list[str] = []
        assert html.startswith("<!doctype html>")
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "embed", "link", "base", "form"), tag
        self.tags.append(tag)
        for name, value in attrs:
            assert name not in _LOADING and not name.startswith("on"), f"{tag} {name}={value}"
            assert name != "style", "styles belong into the style sheet"
            if name == "id":
                assert value not in self.ids, f"id {value} occurs twice"
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-3:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            assert "url(" not in data and "@import" not in data
        else:
            self.text += data
