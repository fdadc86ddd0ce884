"""What changed lately: slower applications, slower targets, jobs in each other's way, and time lost to I/O."""
