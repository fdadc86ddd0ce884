"""Peers and what goes between them: addresses, keys, connections, messages."""
