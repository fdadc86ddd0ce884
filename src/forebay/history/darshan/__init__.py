"""Darshan logs: `log` reads one, `summary` sums it up, and `ingest` reads many into the history."""
