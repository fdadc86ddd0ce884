"""A model of two machines: how fast applications write striped files, run by run."""
