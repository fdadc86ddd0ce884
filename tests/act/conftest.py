from support.filesystems import pretend
from support.stores import database, postgresql, store

__all__ = ["database", "postgresql", "pretend", "store"]
