"""The figures of a study and the pictures of single runs, as PNG and PDF files."""

from forebay.show.figures.exascale import draw_exascale_study
from forebay.show.figures.history_apps import draw_apps
from forebay.show.figures.history_osts import draw_osts
from forebay.show.figures.history_profile import draw_profile
from forebay.show.figures.history_runs import draw_runs
from forebay.show.figures.history_usage import draw_usage
from forebay.show.figures.request_windows import draw_request_windows_study
from forebay.show.figures.sheet import Drawn
from forebay.show.figures.simulation import draw_simulation
from forebay.show.figures.storage_run import draw_storage_run
from forebay.show.figures.storage_sizes import draw_sizes
from forebay.show.figures.storage_study import draw_storage_study
from forebay.show.figures.striping import draw_striping_study
from forebay.show.figures.study import draw_study

__all__ = [
    "Drawn",
    "draw_apps",
    "draw_exascale_study",
    "draw_osts",
    "draw_profile",
    "draw_request_windows_study",
    "draw_runs",
    "draw_simulation",
    "draw_sizes",
    "draw_storage_run",
    "draw_storage_study",
    "draw_striping_study",
    "draw_study",
    "draw_usage",
]
