"""A request that arrives twice at the same time, before the service knows either."""

import asyncio
import io
from itertools import count
from pathlib import Path

import pytest

from forebay.act.control.api.forms import AskForm
from forebay.act.control.api.grants import _request
from forebay.act.control.auth.callers import Who
from forebay.act.control.service.service import Service
from forebay.act.control.service.settings import ServiceSettings
from forebay.act.log import Log
from forebay.decide.grants import events as ev
from forebay.history.store import open_store
from forebay.model.errors import Refused
from forebay.model.grant import Ask

ME = Who(role="user", uid=1000, gid=1000)


async def both(folder: Path, *forms: AskForm) -> tuple[list[Ask | BaseException], int]:
    """What each of them led to at the same time, and how often something was asked for in all."""
    ticks = count(1_000_000)
    with open_store(str(folder / "db")) as store:
        service = Service(store, ServiceSettings(), log=Log(to=io.StringIO()), clock=lambda: float(next(ticks)))
        await service.writer.start()
        try:
            found = await asyncio.gather(*(_request(service, ME, form) for form in forms), return_exceptions=True)
        finally:
            await service.writer.stop()
    asked = sum(
        isinstance(one.event, ev.Asked) for each in found if not isinstance(each, BaseException) for one in each[1]
    )
    return [each if isinstance(each, BaseException) else each[0] for each in found], asked


def test_so_long_from_now_is_the_same_request_when_it_arrives_twice_at_once(tmp_path: Path) -> None:
    form = AskForm.model_validate({"size": 1000, "seconds": 60, "start": "1 h", "key": "once"})
    (first, second), asked = asyncio.run(both(tmp_path, form, form))
    assert isinstance(first, Ask) and isinstance(second, Ask)
    assert first.is_again(second) and asked == 1


def test_another_request_with_the_same_key_is_refused_also_when_both_arrive_at_once(tmp_path: Path) -> None:
    documents = [{"size": size, "seconds": 60, "start": "1 h", "key": "once"} for size in (1000, 2000)]
    forms = [AskForm.model_validate(document) for document in documents]
    (first, second), asked = asyncio.run(both(tmp_path, *forms))
    assert isinstance(first, Ask) and asked == 1
    assert isinstance(second, Refused)
    with pytest.raises(Refused, match="already used for another request"):
        raise second
