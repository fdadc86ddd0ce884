"""How the striping policies look and what they are called on figures."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.show.figures.looks import Look
from forebay.studies.striping.results import APART, DCA, DEFAULT, FOREBAY, TAPP

LOOKS: Mapping[str, Look] = {
    DEFAULT: Look("#7F7F7F", "x", (0, (1, 1.2))),
    TAPP: Look("#E69F00", "s", (0, (5, 1.5))),
    APART: Look("#56B4E9", "v", (0, (3, 1))),
    DCA: Look("#0072B2", "^"),
    FOREBAY: Look("#000000", "o", "-", 1.8, 5),
}


def label(policy: str) -> str:
    """
    >>> label("dca-io:interference=false")
    'dca-io without Procedure 3'
    """
    return "dca-io without Procedure 3" if policy == APART else policy
