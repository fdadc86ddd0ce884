"""The running service: its state, journal, timers and metrics."""
