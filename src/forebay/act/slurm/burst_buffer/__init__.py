"""Slurm's burst buffers as grants of the control service."""
