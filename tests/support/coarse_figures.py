"""A fixture for tests of commands and reports, which draw many figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forebay.show.figures.sheet import STYLE


@pytest.fixture(autouse=True, scope="module")
def coarse_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw figures with few pixels, no layout and plain fonts: fine ones are most of what a test of a study costs."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("fine_figures") is None:
            patch.setitem(STYLE, "savefig.dpi", 40)
            patch.setitem(STYLE, "pdf.fonttype", 3)
            patch.setitem(STYLE, "figure.constrained_layout.use", False)
        yield
