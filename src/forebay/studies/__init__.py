"""Whole evaluations, one folder for each: what is run, its tables, its figures, its findings and its command."""
