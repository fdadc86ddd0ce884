"""A tuner in a package of its own."""

from forebay.decide.policy import tuner
from forebay.decide.tune.bandit import counts, means
from forebay.decide.tune.random_draws import below


@tuner("try-twice", source="an example")
def try_twice(bandit, chance):
    """Every value twice, then the best so far."""
    seen = counts(bandit)
    few = [arm for arm in range(seen.size) if seen[arm] < 2]
    return few[below(chance, len(few))] if few else int(means(bandit).argmax())
