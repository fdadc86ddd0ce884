"""Fits the machine model of the findings to runs whose I/O times are known, and checks it on other runs."""
