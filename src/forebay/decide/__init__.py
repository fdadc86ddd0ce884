"""What to do: policies from a read-only view to a decision. No clock, no files, no hidden randomness."""
