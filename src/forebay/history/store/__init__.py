"""The history in a database: past runs, decisions, and the targets in use."""

from sqlalchemy import Connection

from forebay.history.store.database import (
    Store,
    database_file,
    default_path,
    has_password,
    open_store,
    resolve_database,
)

__all__ = ["Connection", "Store", "database_file", "default_path", "has_password", "open_store", "resolve_database"]
