"""A whole computing centre for a month: jobs, a burst buffer, a parallel file system, and all four decisions."""
