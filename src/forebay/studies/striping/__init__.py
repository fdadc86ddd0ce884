"""Stripe count, stripe size and first target, run by run: the evaluation of Kim et al. 2022."""
