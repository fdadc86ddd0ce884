"""Slurm: what it runs before, during and after jobs, and how Forebay answers."""
