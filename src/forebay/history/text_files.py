"""Reads users' text files, gzipped or not; errors name the file and, in a table, the line."""

import csv
import gzip
import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from forebay.history.regular_files import check_regular
from forebay.model.errors import BadInput, why

_GZIP = b"\x1f\x8b"


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, and decompress it if it is gzip; errors while reading become BadInput."""
    try:
        check_regular(path, pipes=True)
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == _GZIP
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
    except (gzip.BadGzipFile, zlib.error):
        raise BadInput(str(path), "is a damaged gzip file") from None
    except EOFError:
        raise BadInput(str(path), "is a truncated gzip file") from None
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except UnicodeDecodeError:
        raise BadInput(str(path), "is not UTF-8 text") from None


@contextmanager
def open_text(path: Path, encoding: str = "utf-8-sig", errors: str = "strict") -> Iterator[TextIO]:
    """Open a file as text, with unchanged line ends. `errors` says how to decode bytes of other encodings."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="") as text:
        yield text


def read_csv(path: Path, *, ragged: bool = False) -> Generator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line: the header, in lower case, then lines with the same number of cells.

    Commas separate the cells, or semicolons if the header has one. Empty lines are left out. `ragged` also yields lines
    with another number of cells.
    """
    with open_text(path) as file:
        first = file.readline()
        reader = csv.reader(chain([first], file), delimiter=";" if ";" in first else ",")
        try:
            header = [name.strip().lower() for name in next(reader)]
            yield 1, header
            for cells in reader:
                if len(cells) == len(header) or (cells and ragged):
                    yield reader.line_num, cells
                elif cells:
                    reason = f"has {len(cells)} values for {len(header)} columns"
                    raise BadInput(f"{path}:{reader.line_num}", reason)
        except csv.Error as error:
            raise BadInput(f"{path}:{reader.line_num}", f"is not CSV: {error}") from None
