"""Doing it on the real machine: the commands of parallel file systems, and what their targets serve right now."""
