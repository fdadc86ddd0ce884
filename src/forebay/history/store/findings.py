"""What was wrong with the I/O of runs when their logs were read."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from forebay.history.run_fields import Row
from forebay.history.store.bulk import select_in
from forebay.history.store.schema import diagnoses, findings


def read_diagnoses(connection: Connection, run_ids: Sequence[int]) -> dict[int, Row]:
    """The rows of `run_diagnoses` by run, each with its `findings`, the most costly first; runs without one are left
    out."""
    rows: dict[int, list[Row]] = defaultdict(list)
    query = sa.select(findings).order_by(findings.c.run_id, findings.c.number)
    for row in select_in(connection, query, findings.c.run_id, run_ids):
        rows[row.run_id].append(row._asdict())
    stored = select_in(connection, sa.select(diagnoses), diagnoses.c.run_id, run_ids)
    return {row.run_id: {**row._asdict(), "findings": rows[row.run_id]} for row in stored}
