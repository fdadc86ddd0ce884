"""The control service as Slurm's side of it needs it, beside what every client can."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from forebay.act.control.client import Client, Document
from forebay.model.grant import LIVE


class SlurmClient(Client):
    """One caller, who speaks for the batch system."""

    def __enter__(self) -> SlurmClient:
        return self

    def tiers(self) -> list[Document]:
        return self._list("GET", "/v1/tiers", "tiers")

    def live(self) -> Iterator[Document]:
        """All grants that have not ended."""
        for state in sorted(LIVE):
            yield from self.grants(state=state.value)

    def of_key(self, key: str) -> list[Document]:
        """All grants of a job, also those that ended, in order."""
        return self._list("GET", f"/v1/keys/{quote(key, safe='')}", "grants")

    def longest(self) -> float:
        """Seconds that a grant may last."""
        return float(self.rules()["longest"])

    def let_go(self, grant: str, because: str) -> Document:
        return self._document("POST", f"/v1/grants/{quote(grant, safe='')}/release", {"because": because})

    def keep_until(self, grant: str, until: float) -> Document:
        """`until` is seconds since 1970."""
        return self._document("POST", f"/v1/grants/{quote(grant, safe='')}/extend", {"until": until})
