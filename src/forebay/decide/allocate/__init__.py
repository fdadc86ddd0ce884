"""Allocation policies: how many targets each application gets."""
