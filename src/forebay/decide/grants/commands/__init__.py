"""What can be asked of the service. Each command is declared once: its fields, who may give it, what it leads to."""

# isort: off
from forebay.decide.grants.commands.base import SERVICE, Caller, Command, Role
from forebay.decide.grants.commands.grants import Extend, Release, Request, Use
from forebay.decide.grants.commands.kept_volumes import Adopt, Discard
from forebay.decide.grants.commands.nodes import Drain, Register, Remove, Seen, Silent, Undrain
from forebay.decide.grants.commands.reports import (
    Fault, Found, FoundVolume, Gone, Lost, Made, NotMade, Report, Stuck,
)  # fmt: skip
from forebay.decide.grants.commands.service import ChangePolicy, ChangeRules, Tick

__all__ = [
    "SERVICE", "Adopt", "Caller", "ChangePolicy", "ChangeRules", "Command", "Discard", "Drain", "Extend", "Fault",
    "Found", "FoundVolume", "Gone", "Lost", "Made", "NotMade", "Register", "Release", "Remove", "Report", "Request",
    "Role", "Seen", "Silent", "Stuck", "Tick", "Undrain", "Use",
]  # fmt: skip
