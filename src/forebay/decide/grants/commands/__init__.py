"""The commands to the service. Each is declared once: its fields, who may give it, and the events it causes."""

from forebay.decide.grants.commands.administration import *  # noqa: F403
from forebay.decide.grants.commands.grants import *  # noqa: F403
from forebay.decide.grants.commands.kept_volumes import *  # noqa: F403
from forebay.decide.grants.commands.nodes import *  # noqa: F403
from forebay.decide.grants.commands.permissions import *  # noqa: F403
from forebay.decide.grants.commands.reports import *  # noqa: F403
from forebay.decide.grants.commands.staging import *  # noqa: F403
