"""Lustre."""
