"""Prepares each Slurm job, and cleans up after it."""
