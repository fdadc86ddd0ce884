"""Reproducible experiments: many independent pieces, one table."""
