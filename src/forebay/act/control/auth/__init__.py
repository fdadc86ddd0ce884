"""Who is calling, and what a caller may see: sockets, MUNGE, tokens, logins, volume keys."""
