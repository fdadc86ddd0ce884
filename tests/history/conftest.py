from support.stores import database, postgresql, store

__all__ = ["database", "postgresql", "store"]
