"""Striping policies: the stripe count, stripe size and first target of a job's files.

A striping policy is a function `(StripeView) -> Striping`. Other policies can use the procedures of DCA-IO in
`dca_io`, `rule` (by the access pattern) and `first_target`.
"""
