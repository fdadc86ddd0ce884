"""Which of a few values of a parameter is best here? Learned while it is in use.

A tuner is a function `(bandit, chance) -> arm`: `bandit` is what is known of each value (an arm) in one situation,
one flat array (`forebay.decide.tune.bandit`), `chance` a state of `forebay.model.random_numbers`. What rewards do to
the bandit is the same for all of them. `tuners` has the built-in ones, `reward` what a period was worth, and `council`
decides for a whole forwarding layer.
"""
