"""Darshan logs: what one of them says (`log`), summed up (`summary`), and many of them (`ingest`)."""
