"""Tuners learn which of a few values of a parameter is best, while the parameter is in use.

A tuner is a function `(bandit, chance) -> arm`. `bandit` is a flat array with what is known about each value (arm) in
one situation (`forebay.decide.tune.bandit`). `chance` is a state of `forebay.model.random_numbers`. All tuners learn
from rewards in the same way. `tuners` has the built-in tuners, `reward` computes what a period was worth, and
`council` decides for a whole forwarding layer.
"""
