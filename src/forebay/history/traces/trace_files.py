"""The contents of trace files, gzipped or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from forebay.model.errors import BadInput, why

_GZIP = b"\x1f\x8b"


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file, decompressed if it is gzip; errors while it is read become BadInput."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
    except (gzip.BadGzipFile, zlib.error):
        raise BadInput(str(path), "is a damaged gzip file") from None
    except EOFError:
        raise BadInput(str(path), "is a gzip file that was cut short") from None
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except UnicodeDecodeError:
        raise BadInput(str(path), "is not UTF-8 text") from None


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """The same as text, with unchanged line ends."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def digest_file(path: Path) -> bytes:
    """The SHA-256 of the file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
