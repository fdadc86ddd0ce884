"""Slurm: the scripts that it runs before, during and after jobs, and Forebay's commands behind them."""
