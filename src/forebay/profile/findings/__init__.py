"""What is wrong with a run's I/O, what to do about it, and what that brings."""
