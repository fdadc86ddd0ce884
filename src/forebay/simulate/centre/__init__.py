"""A month of a computing centre: jobs, a burst buffer, a parallel file system, and all four decisions."""
