"""The study of a whole centre over a month, with all four decisions."""
