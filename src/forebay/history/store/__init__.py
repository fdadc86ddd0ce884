"""The history in a database: what ran, what was decided, and which targets are in use."""

from sqlalchemy import Connection

from forebay.history.store.database import Store, default_path, has_password, open_store, resolve_database

__all__ = ["Connection", "Store", "default_path", "has_password", "open_store", "resolve_database"]
