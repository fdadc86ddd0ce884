"""The parallel file systems of the machine: layouts, the state of targets, and their current load."""
