"""Doing it on the real machine. Nothing is built here yet."""
