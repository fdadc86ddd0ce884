"""The layer as a mounted file system for unmodified programs."""
