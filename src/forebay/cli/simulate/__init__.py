"""`forebay simulate`: applications that share I/O targets, or requests for storage space."""
