"""Volumes on the disks of a storage node: makes them for grants, finds them after a crash, and removes them."""
