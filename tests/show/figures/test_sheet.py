"""Files of figures as readers get them: sharp, with fonts that publishers take, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from forebay.show.figures.sheet import Sketch, house_style, panels, write_figures

pytestmark = pytest.mark.fine_figures


@house_style()
def sketch() -> Sketch:
    figure, (left, right) = panels(2)
    left.plot([1, 2], [3, 4])
    right.set_title("Only letters")
    return Sketch(name="figure-01", title="A line", caption="One line.", figure=figure)


def test_files_are_sharp_have_truetype_fonts_and_are_the_same_every_time(tmp_path: Path) -> None:
    (one,), (other,) = (write_figures([sketch()], tmp_path / turn) for turn in "ab")
    with Image.open(one.png) as picture:
        assert picture.width == pytest.approx(7.2 * 220, abs=1)
    pdf = one.pdf.read_bytes()
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"CreationDate" not in pdf
    assert one.png.read_bytes() == other.png.read_bytes() and pdf == other.pdf.read_bytes()
    assert sorted(path.name for path in one.png.parent.iterdir()) == ["figure-01.pdf", "figure-01.png"]
