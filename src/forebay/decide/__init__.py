"""Policies: functions from a read-only view to a decision. They use no clock, no files and no hidden randomness."""
