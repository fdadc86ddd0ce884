"""The council: watches all I/O nodes, and sends them the decisions of its tuner."""
