"""The web page of a running service, of a finished study, or of a journal."""

from pathlib import Path

from forebay.act.control.page.files import Pages, read_files
from forebay.act.control.service.settings import ServiceSettings

FILES = Path(__file__).parent / "files"


def pages(settings: ServiceSettings | None = None) -> Pages:
    """The page's files, and its views beside those of the service."""
    from forebay.show.web.forwarding import forwarding
    from forebay.show.web.history import application, application_runs, history, make_run_sheet
    from forebay.show.web.schedule import read_plan

    if settings is None:
        return Pages(files=read_files(FILES))
    looks = {
        "history": lambda _: history(settings.history),
        "application": lambda query: application(settings.history, query["of"]),
        "runs": lambda query: application_runs(settings.history, query["of"]),
        "forwarding": lambda _: forwarding(settings.forward),
        "schedule": lambda _: read_plan(settings.schedule),
    }
    sheets = {"run": lambda number: make_run_sheet(settings.history, number)}
    return Pages(files=read_files(FILES), looks=looks, sheets=sheets)
