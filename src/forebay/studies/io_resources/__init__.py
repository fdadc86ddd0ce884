"""How many and which I/O nodes or OSTs: the evaluation of Bandet et al. 2024."""
