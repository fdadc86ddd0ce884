"""Commands of the control, made from the forms of the API."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forebay.act.control.agent.disks import FIELD as EXPOSE
from forebay.act.control.api.forms import (
    AskForm,
    DiskForm,
    HelloForm,
    ReportForm,
    RulesForm,
    VolumeForm,
    bandwidth_of,
    seconds_of,
    size_of,
)
from forebay.act.control.auth.callers import Who, check_administrator, first_group, user_name
from forebay.act.control.auth.volume_keys import without_key
from forebay.decide.grants import commands as co
from forebay.decide.grants.control import Control
from forebay.decide.grants.machine import DiskSpec
from forebay.decide.grants.rules import GrantRules
from forebay.model.errors import BadInput
from forebay.model.grant import Ask, NotAllowed

_LONGEST = 500  # characters of a reason that are kept


def ask_of(form: AskForm, who: Who, control: Control, now: float) -> Ask:
    """The request, with a number of its own."""
    uid, gid = _owner(form, who)
    grant = secrets.token_hex(16)
    key = form.key or grant
    if "tier" in form.fields and form.tier not in ("", form.fields["tier"]):
        raise BadInput("tier", f"is {form.tier!r} and {form.fields['tier']!r} at once")
    wants = {**_means(form, uid, key, control), **form.fields, **({"tier": form.tier} if form.tier else {})}
    _check_words(hosts=form.hosts, fields=list(form.fields))
    return Ask(
        grant=grant,
        key=key,
        uid=uid,
        gid=gid,
        user=user_name(uid),
        job=form.job,
        size=size_of("size", form.size),
        seconds=seconds_of("seconds", form.seconds),
        start=_start(form, uid, key, control, now),
        wants=wants,
        expose="" if form.expose == "none" else form.expose,
        hosts=tuple(form.hosts),
        mode=form.mode,
        ceiling=bandwidth_of("ceiling", form.ceiling),
    )


def _means(form: AskForm, uid: int, key: str, control: Control) -> dict[str, str]:
    """By which means its disks must expose volumes, where disks say so: a volume can be reached in no other way."""
    known = control.by_key(uid, key)
    # Sent again, it is the same request, whichever disks have come since.
    told = control.tables.knows_field(EXPOSE) if known is None else EXPOSE in known.ask.wants
    return {EXPOSE: form.expose or "none"} if told else {}


def _check_words(**lists: Sequence[str]) -> None:
    for where, words in lists.items():
        for word in words:
            if not word or len(word) > 200 or not word.isprintable():
                raise BadInput(where, f"must be of 1 to 200 printable characters, not {word[:40]!r}")


def _owner(form: AskForm, who: Who) -> tuple[int, int]:
    if who.role == "agent":
        raise NotAllowed("an agent cannot request space")
    if form.uid is None and form.gid is None:
        if who.uid < 0:
            raise BadInput("uid", "is missing: this token belongs to no user")
        return who.uid, max(0, who.gid)
    check_administrator(who)
    uid = who.uid if form.uid is None else form.uid
    gid = first_group(uid) if form.gid is None and 0 <= uid < 2**32 else form.gid
    return uid, uid if gid is None else gid


def _start(form: AskForm, uid: int, key: str, control: Control, now: float) -> float | None:
    """A time; what is said as so long from now means the same when it is sent again."""
    if form.start is None:
        return None
    if isinstance(form.start, int | float):
        return seconds_of("start", form.start)
    later = seconds_of("start", form.start)
    known = control.by_key(uid, key)
    return now + later if known is None else known.ask.start


def register_of(node: str, form: HelloForm, who: Who, ours: bool | None) -> co.Register:
    fields = {**form.fields, **({"address": form.address} if form.address else {})}
    return co.Register(
        caller=who.for_node(node),
        node=node,
        network_bandwidth=bandwidth_of("network_bandwidth", form.network_bandwidth),
        fields=fields,
        disks=tuple(_disk_of(disk) for disk in form.disks),
        volumes=None if form.volumes is None else tuple(_volume_of(volume) for volume in form.volumes),
        number=form.number,
        ours=ours,
        seen=form.seen,
        unseen={name: _reason(because) for name, because in form.unseen.items()},
    )


def _disk_of(form: DiskForm) -> DiskSpec:
    where = f"disk {form.name[:40]!r}"
    return DiskSpec(
        name=form.name,
        capacity=size_of(f"{where}: capacity", form.capacity),
        read_bandwidth=bandwidth_of(f"{where}: read_bandwidth", form.read_bandwidth),
        write_bandwidth=bandwidth_of(f"{where}: write_bandwidth", form.write_bandwidth),
        identity=form.identity,
        fields={**form.fields, **({"kind": form.kind} if form.kind else {})},
    )


def _volume_of(form: VolumeForm) -> co.FoundVolume:
    return co.FoundVolume(
        name=form.name,
        disk=form.disk,
        size=form.size,
        whole=form.state == "whole",
        path=form.path,
        device=form.device,
        settings=without_key(form.settings),
        uid=form.uid,
        gid=form.gid,
        mode=form.mode,
        ceiling=form.ceiling,
        since=form.since,
    )


def report_of(node: str, form: ReportForm, who: Who) -> co.Command:
    caller = who.as_agent(node)
    if form.kind == "found":
        return co.Found(
            caller=caller, node=node, number=form.number, volumes=tuple(_volume_of(volume) for volume in form.volumes)
        )
    about: dict[str, Any] = {"caller": caller, "volume": form.volume, "number": form.number, "disk": form.disk}
    if form.kind == "made":
        return co.Made(**about, path=form.path, device=form.device, settings=without_key(form.settings))
    if form.kind == "gone":
        return co.Gone(**about)
    because = _reason(form.because)
    if form.kind == "failed":
        return co.NotMade(**about, because=because, fault=form.fault)
    return (co.Stuck if form.kind == "stuck" else co.Lost)(**about, because=because)


def _reason(words: str) -> str:
    return " ".join(words.split())[:_LONGEST] or "its agent gave no reason"


def rules_of(form: RulesForm, old: GrantRules) -> GrantRules:
    changes: dict[str, Any] = {}
    for name, value in form.model_dump(exclude_none=True).items():
        if name in ("tries", "most"):
            changes[name] = value
        else:
            changes[name] = (size_of if name == "split" else seconds_of)(f"rules.{name}", value)
    return replace(old, **changes)
