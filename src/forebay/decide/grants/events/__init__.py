"""The events. Each is declared once: its fields, what it changes, its sentence, and how metrics count it.

The journal stores events; `codec` converts them.
"""

from forebay.decide.grants.events.base import *  # noqa: F403
from forebay.decide.grants.events.grant import *  # noqa: F403
from forebay.decide.grants.events.machine import *  # noqa: F403
