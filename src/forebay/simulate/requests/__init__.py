"""Single requests in virtual time: clients, I/O nodes and data servers."""
