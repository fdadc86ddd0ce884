"""The history in a database: what ran, what was decided, and which targets are in use."""

from sqlalchemy import Connection

from forebay.history.store.database import Store, database_named, default_path, has_password, open_store

__all__ = ["Connection", "Store", "database_named", "default_path", "has_password", "open_store"]
