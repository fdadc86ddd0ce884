"""The council: watches all I/O nodes, and tells them what it has learned."""
