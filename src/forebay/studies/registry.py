"""All studies. To add one, write a folder with a command, and add a line here."""

from forebay.studies.burst_buffer.command import BURST_BUFFER
from forebay.studies.exascale.command import EXASCALE
from forebay.studies.io_resources.command import IO_NODES, OSTS, ROBUSTNESS
from forebay.studies.jobs.command import JOBS
from forebay.studies.request_windows.command import REQUEST_WINDOWS
from forebay.studies.striping.command import STRIPING

STUDIES = (
    IO_NODES,
    OSTS,
    ROBUSTNESS,
    BURST_BUFFER,
    STRIPING,
    REQUEST_WINDOWS,
    EXASCALE,
    JOBS,
)
