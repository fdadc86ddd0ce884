"""The running service: its state, its journal, its timers, and what it tells operators."""
