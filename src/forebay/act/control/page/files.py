"""The files of the page, and its views beside those of the service. Whoever starts the service passes both."""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Look = Callable[[Mapping[str, str]], Mapping[str, object]]
"""Makes a document from the parameters of a call. It can be slow."""
MakeSheet = Callable[[int], bytes]
"""Makes an HTML document about the thing with this number. It can be slow."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SHEET_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
"""For self-contained documents, which run no script, load nothing and belong to no site."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""Headers of all answers to browsers: the page loads nothing from other sites, and no other site can embed it."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, plain and compressed; `tag` changes with its content."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Files by name, `looks` by the view that they serve, and `sheets` by what they are about."""

    files: Mapping[str, File] = field(default_factory=dict)
    looks: Mapping[str, Look] = field(default_factory=dict)
    sheets: Mapping[str, MakeSheet] = field(default_factory=dict)


NO_PAGES = Pages()


def read_files(folder: Path) -> dict[str, File]:
    files = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            files[path.name] = File(content, gzip.compress(content, 9, mtime=0), TYPES[path.suffix], tag)
    return files
