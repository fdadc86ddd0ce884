"""Profiles of applications, access patterns, bandwidth curves and OSTs, and synthetic workloads."""
