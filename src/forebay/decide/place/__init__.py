"""Which targets each application gets: one policy a file."""
