"""With which stripe count, stripe size and first target a job's files are laid out.

A striping policy is a function `(StripeView) -> Striping`. Other policies can use the procedures of DCA-IO: those in
`dca_io`, `rule` (by the access pattern) and `first_target`.
"""
