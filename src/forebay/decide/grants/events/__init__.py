"""What can happen. Each event is declared once: its fields, what it changes, how it reads, and how it is counted.

Events are values that go into a journal and come back from it (see `codec`).
"""

from forebay.decide.grants.events.base import *  # noqa: F403
from forebay.decide.grants.events.grant import *  # noqa: F403
from forebay.decide.grants.events.machine import *  # noqa: F403
