"""Darshan logs: reading one (`log`), summing it up (`summary`), and reading many into the history (`ingest`)."""
