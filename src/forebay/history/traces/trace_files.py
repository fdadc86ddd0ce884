"""The bytes of a file, gzipped or not, and what is said where there are none."""

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
    """The file, unpacked where it is gzip; whatever goes wrong while it is read is bad input."""
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
    """The same as text, its line ends as they are."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        yield text


def digest_file(path: Path) -> bytes:
    """The SHA-256 of the file as it lies there."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
