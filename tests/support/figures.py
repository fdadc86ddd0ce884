"""What tests of figures ask of sketches, and of the files that become of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

from forebay.show.figures.sheet import Sketch, house_style, write_figures


@house_style()
def numbers_of(made: Iterable[Sketch]) -> list[str]:
    """The numbers in the names of figures, each of which is laid out and drawn, though not into a file."""
    sketches = list(made)
    for sketch in sketches:
        sketch.figure.draw_without_rendering()
        assert sketch.title and sketch.caption.endswith(".")
    return [sketch.name.split("-")[1] for sketch in sketches]


@house_style()
def assert_same_bytes(sketch_all: Callable[[], Iterable[Sketch]], folder: Path) -> None:
    """Sketched twice, every figure has the same pixels; and the files of one are the same and hold no date."""
    first, second = (list(sketch_all()) for _ in range(2))
    for sketch, again in zip(first, second, strict=True):
        assert pixels_of(sketch) == pixels_of(again), sketch.name
    written = [write_figures(sketches[:1], folder / turn)[0] for sketches, turn in ((first, "a"), (second, "b"))]
    png, pdf = ([path.read_bytes() for path in paths] for paths in zip(*((w.png, w.pdf) for w in written), strict=True))
    assert png[0] == png[1] and png[0].startswith(b"\x89PNG")
    assert pdf[0] == pdf[1] and pdf[0].startswith(b"%PDF") and b"CreationDate" not in pdf[0]


def pixels_of(sketch: Sketch) -> bytes:
    canvas = FigureCanvasAgg(sketch.figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    return bytes(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
