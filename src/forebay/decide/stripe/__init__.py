"""With which stripe count, stripe size and first target a job's files are laid out: one policy a file.

A striping policy is a function `(StripeView) -> Striping`. The procedures of DCA-IO are modules of their own,
so that other policies can use them: `initial` (nothing is known of the application), `recurring` (its own
runs are), `rule` (its access pattern is) and `start` (which targets).
"""
