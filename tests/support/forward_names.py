"""The tree of names with requests as keywords, which tests read and write more easily."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebay.act.forward.data.names import Names
from forebay.act.forward.data.records import Record, RecordTree
from forebay.act.forward.net.payloads import AttributesRequest, MkdirRequest, OpenRequest, layout_fields


class KeywordNames(Names):
    """`owner` is a pair of user and group, `layout` a `Layout`."""

    def open(self, path: bytes, **fields: Any) -> tuple[Record, bool]:  # type: ignore[override]
        return super().open(OpenRequest(path=path, **_wire(fields)))

    def mkdir(self, path: bytes, **fields: Any) -> None:  # type: ignore[override]
        super().mkdir(MkdirRequest(path=path, **_wire(fields)))

    def set_attributes(self, where: bytes | int, **fields: Any) -> None:  # type: ignore[override]
        path, file = (None, where) if isinstance(where, int) else (where, 0)
        super().set_attributes(AttributesRequest(path=path, **_wire(fields)), file)


class SteppedTree(RecordTree):
    """Calls `step` after each change of the disk."""

    def __init__(self, folder: Path, step: Callable[[], None]) -> None:
        super().__init__(folder)
        self._step = step

    def write_record(self, place: bytes, record: Record) -> None:
        super().write_record(place, record)
        self._step()

    def replace(self, place: bytes, content: bytes) -> None:
        super().replace(place, content)
        self._step()

    def rename(self, place: bytes, to: bytes) -> None:
        super().rename(place, to)
        self._step()

    def link(self, place: bytes, to: bytes) -> None:
        super().link(place, to)
        self._step()

    def mkdir(self, place: bytes) -> None:
        super().mkdir(place)
        self._step()

    def remove(self, place: bytes) -> None:
        super().remove(place)
        self._step()

    def remove_all(self, place: bytes) -> None:
        super().remove_all(place)
        self._step()


def _wire(fields: dict[str, Any]) -> dict[str, Any]:
    if "owner" in fields:
        fields["uid"], fields["gid"] = fields.pop("owner")
    if fields.get("layout") is not None:
        fields["layout"] = layout_fields(fields["layout"])
    return fields
