"""A month of a whole centre with all four decisions."""
