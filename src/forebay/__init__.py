"""Forebay decides what every job gets of a supercomputer's shared I/O, and proves it by simulation first."""

__version__ = "0.1.0"
