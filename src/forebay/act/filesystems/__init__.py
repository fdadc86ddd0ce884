"""The machine's parallel file systems: layouts, and the state and load of targets."""
