"""Simulates jobs that need compute nodes and burst-buffer bytes, under a scheduling policy."""
