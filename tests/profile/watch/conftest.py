from support.stores import postgresql

__all__ = ["postgresql"]
