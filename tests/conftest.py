"""No test depends on time, nor on chance; `--hypothesis-profile=explore` draws at random, and more."""

from hypothesis import settings

settings.register_profile("forebay", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("forebay")
