"""Storage policies in virtual time: decisions on disk space, and their results."""
