"""The live system: the control service, the agents of storage nodes, and their clients."""
