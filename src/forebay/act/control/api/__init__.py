"""The HTTP API: routes, documents, limits, and the sockets that serve them."""
