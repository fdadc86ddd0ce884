"""A small server for `forebay show`: it serves the page to one reader, on this machine alone.

Other users of this machine could open the page, too, so the reader needs a key. The printed address contains it, and
the browser keeps it in a cookie.
"""

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from forebay.act.control.errors import ErrorCode, error_code, error_document
from forebay.act.control.page.files import HEADERS, SHEET_POLICY, TYPES, File
from forebay.model.errors import BadInput, ForebayError, why

_COOKIE = "forebay-show"
_READER = {"role": "reader", "name": "", "uid": -1, "until": 0, "proof": ""}
_MORE = {".csv": "text/csv; charset=utf-8", ".json": "application/json", ".pdf": "application/pdf"}


class Source(Protocol):
    """A study or a journal."""

    def answer(self, path: str, query: Mapping[str, str]) -> Mapping[str, object] | None: ...


class Server:
    """Serves until `close`; `port` 0 means any free port."""

    def __init__(self, source: Source, files: Mapping[str, File], port: int = 0) -> None:
        self.key = secrets.token_urlsafe(16)
        attributes: dict[str, Any] = {"source": source, "files": files, "key": self.key, "lock": threading.Lock()}
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), type("Reader", (_Handler,), attributes))
        except OSError as error:
            raise BadInput("--port", f"cannot listen on port {port}: {why(error)}") from None
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="page")
        self._thread.start()

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"{self.origin}/?key={self.key}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    source: Source
    files: Mapping[str, File]
    key: str
    lock: threading.Lock
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if self.headers.get("Host", "") not in (f"127.0.0.1:{self._port}", f"localhost:{self._port}"):
            self._refuse(ErrorCode.NOT_ALLOWED, "open the page at the address that `forebay show` printed")
        elif parts.path == "/" and hmac.compare_digest(query.get("key", "").encode(), self.key.encode()):
            cookie = f"{_COOKIE}={self.key}; Path=/; HttpOnly; SameSite=Strict"
            self._send(303, b"", "text/plain", {"Location": "/", "Set-Cookie": cookie})
        elif not self._has_key():
            self._refuse(ErrorCode.NOT_ALLOWED, "no valid key; open the address that `forebay show` printed")
        else:
            self._answer(unquote(parts.path), query)

    @property
    def _port(self) -> int:
        host_and_port: Any = self.server.server_address
        return int(host_and_port[1])

    def _has_key(self) -> bool:
        wanted = f"{_COOKIE}={self.key}".encode()
        cookies = self.headers.get("Cookie", "").split(";")
        return any(hmac.compare_digest(cookie.strip().encode(), wanted) for cookie in cookies)

    def _answer(self, path: str, query: Mapping[str, str]) -> None:
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        file: Callable[[str], Path | None] | None = getattr(self.source, "file", None)
        if name in self.files and (path == "/" or path.startswith("/page/")):
            self._send(200, self.files[name].content, self.files[name].kind, {"Cache-Control": "no-cache"})
        elif path.startswith("/study/") and file is not None and (study_file := file(path.removeprefix("/study/"))):
            self._send_file(study_file)
        else:
            try:
                with self.lock:
                    document = self.source.answer(path, query)
            except ForebayError as error:
                self._refuse(error_code(error), str(error))
            except ValueError as error:
                self._refuse(ErrorCode.MALFORMED, str(error))
            else:
                if document is None:
                    self._refuse(ErrorCode.NOT_FOUND, "not found")
                else:
                    self._json(200, {**document, "who": _READER})

    def _send_file(self, path: Path) -> None:
        more = {"Content-Security-Policy": SHEET_POLICY} if path.suffix == ".html" else {}
        kind = (TYPES | _MORE).get(path.suffix, "application/octet-stream")
        try:
            self._send(200, path.read_bytes(), kind, more)
        except OSError as error:
            self._refuse(ErrorCode.NOT_FOUND, why(error))

    def _refuse(self, code: ErrorCode, sentence: str) -> None:
        self._json(code.status, error_document(code, sentence))

    def _json(self, status: int, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, separators=(",", ":"), default=str).encode()
        self._send(status, text, "application/json", {"Cache-Control": "no-store"})

    def _send(self, status: int, body: bytes, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in (HEADERS | {"Content-Type": kind, "Content-Length": str(len(body))} | dict(more)).items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # the reader has closed the connection
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
