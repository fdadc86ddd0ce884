"""How large a burst buffer must be."""
