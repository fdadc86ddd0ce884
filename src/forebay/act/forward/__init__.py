"""The I/O forwarding layer: data servers, I/O nodes, the council over them, and programs' ways in."""
