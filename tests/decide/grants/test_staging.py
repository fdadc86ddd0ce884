"""Staging: which nodes copy, when all of it is done, and what ends it."""

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import CopyAction
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import NotAllowed, State
from forebay.model.staging import Progress, Staging, StagingState, Step
from support.grants import ADMINISTRATOR, USER, Service, agent, ask, check, disk, grant_id, service

IN, OUT = ("/home/ann/in", "in"), ("out", "/home/ann/out")
COPIED, SETTLED = Progress(step=Step.COPIED, files=3, bytes=7), Progress(step=Step.SETTLED, files=3, bytes=7)


def ready(*nodes: str, **more: object) -> Service:
    """A machine with a ready grant that has a volume on each of these nodes."""
    made = service()
    made.rules(split=10)
    for node in nodes:
        made.register(node, disk("d", 10))
    made.ask(1, 10 * len(nodes), 1000.0, **more)
    for node in nodes:
        for action in made.control.actions(node):
            made.do(co.Made(caller=agent(node), volume=action.volume, settings={"address": f"{node}:1"}))
    assert made.control.grant(grant_id(1)).state is State.READY
    return made


def stage(made: Service, way: str = "in", *pairs: tuple[str, str], key: str = "k", **more: object) -> None:
    chosen = pairs or ((IN,) if way == "in" else (OUT,))
    made.do(co.Stage(caller=USER, grant=grant_id(1), key=key, way=way, pairs=chosen, **more))  # type: ignore[arg-type]


def copied(made: Service, node: str, progress: Progress, because: str = "", key: str = "k") -> None:
    caller = agent(node)
    made.do(co.Copied(caller=caller, node=node, grant=grant_id(1), key=key, progress=progress, because=because))


def staging(made: Service) -> Staging:
    known = made.control.grant(grant_id(1)).staging
    assert known is not None
    return known


def copies(made: Service, *nodes: str) -> list[CopyAction]:
    return [copy for node in nodes for copy in made.control.copies(node)]


def test_into_separate_volumes_one_node_copies_and_out_of_them_all_do() -> None:
    made = ready("x", "y")
    first = made.control.volumes(grant_id(1))[0].node
    stage(made)
    (copy,) = copies(made, "x", "y")
    assert copy.limit == staging(made).limit
    assert (copy.nodes, copy.volumes, copy.servers) == (1, (f"{grant_id(1)}.0",), ())
    assert [made.control.has_work(node) for node in ("x", "y")] == [node == first for node in ("x", "y")]
    copied(made, first, SETTLED)
    assert staging(made).state is StagingState.DONE and copies(made, "x", "y") == []
    stage(made, "out", key="again")
    assert [(copy.number, copy.nodes, len(copy.volumes)) for copy in copies(made, "x", "y")] == [(0, 2, 1), (1, 2, 1)]
    check(made.control)


def test_all_nodes_copy_into_a_shared_file_system_and_settle_when_all_have_copied() -> None:
    made = ready("x", "y", expose="shared", servers=2)
    stage(made)
    assert [copy.servers for copy in copies(made, "x", "y")] == [("x:1", "y:1")] * 2
    copied(made, "x", COPIED)
    assert [copy.settle for copy in copies(made, "x", "y")] == [False, False]
    copied(made, "y", Progress(files=1, bytes=2))
    assert staging(made).describe() == "staging in: 4 files, 9 B"
    copied(made, "y", COPIED)
    assert [copy.settle for copy in copies(made, "x", "y")] == [True, True]
    copied(made, "x", Progress(step=Step.SETTLED))
    assert staging(made).state is StagingState.RUNNING
    copied(made, "y", Progress(step=Step.SETTLED))
    assert staging(made).describe() == "staged in: 6 files, 14 B"
    check(made.control)


def test_a_repeated_command_copies_once_and_a_second_staging_waits_for_the_first() -> None:
    made = ready("x")
    for _ in range(2):
        stage(made)
    with pytest.raises(Refused, match="still staging in; wait"):
        stage(made, "out", key="other")
    with pytest.raises(Refused, match="key 'k' is already used"):
        stage(made, "in", ("/home/ann/other", "in"))
    copied(made, "x", SETTLED)
    stage(made)
    assert staging(made).state is StagingState.DONE
    copied(made, "x", Progress())
    assert staging(made).files == 3


def test_a_reason_of_one_node_ends_it_for_all() -> None:
    made = ready("x", "y", expose="shared", servers=2)
    stage(made, "out")
    copied(made, "x", Progress(files=2), because="/home/ann/out: no space left on device")
    assert staging(made).describe() == "stage-out failed after 2 files, 0 B: /home/ann/out: no space left on device"
    assert copies(made, "x", "y") == []


def test_a_failure_that_says_less_than_was_reported_takes_nothing_back() -> None:
    made = ready("x")
    stage(made)
    copied(made, "x", Progress(files=2, bytes=10, total=5))
    copied(made, "x", Progress(), because="it broke")
    assert staging(made).describe() == "stage-in failed after 2 of 5 files, 10 B: it broke"
    check(made.control)


def test_every_staging_that_failed_is_told_until_the_grant_ends() -> None:
    made = ready("x")
    for key, because in (("a", "/home/ann/in/pipe: it broke"), ("b", ""), ("c", "it broke again"), ("d", "")):
        stage(made, key=key)
        copied(made, "x", Progress() if because else SETTLED, because, key=key)
    failures = ["stage-in failed after 0 files, 0 B: /home/ann/in/pipe: it broke"]
    failures.append("stage-in failed after 0 files, 0 B: it broke again")
    assert staging(made).state is StagingState.DONE and made.control.marks(grant_id(1)) == failures
    check(made.control)
    made.do(co.Release(caller=USER, grant=grant_id(1)))
    made.carry_out("x")
    assert made.control.marks(grant_id(1)) == []


def test_a_name_that_no_volume_has_is_an_error_and_one_that_some_have_is_not() -> None:
    for missing, state in (((), StagingState.RUNNING), ((0,), StagingState.FAILED)):
        made = ready("x", "y")
        stage(made, "out")
        copied(made, "x", Progress(step=Step.COPIED, missing=(0,)))
        copied(made, "y", Progress(step=Step.COPIED, missing=missing))
        assert staging(made).state is state
    assert staging(made).because == "out: no such file or directory"


def test_the_time_limit_counts_only_while_nothing_moves() -> None:
    made = ready("x")
    made.now = 10.0
    stage(made, limit=30.0)
    for files in range(1, 5):
        made.now += 25.0
        copied(made, "x", Progress(files=files))
        made.do(co.Tick(caller=ADMINISTRATOR))
    assert staging(made).state is StagingState.RUNNING
    assert made.control.next_due(made.now) == made.now + 30.0
    made.now += 31.0
    made.do(co.Tick(caller=ADMINISTRATOR))
    assert staging(made).because == "nothing moved for 30 s: node x copied nothing; see the log of its agent"


def test_the_end_of_the_grant_ends_its_staging() -> None:
    made = ready("x")
    stage(made)
    made.do(co.Release(caller=USER, grant=grant_id(1)))
    assert staging(made).state is StagingState.FAILED and copies(made, "x") == []
    assert "the grant is being released" in staging(made).because


def test_what_is_not_possible_is_refused_with_the_reason() -> None:
    made = ready("x")
    for pairs, reason in (
        ((("home", "in"),), "home: must be an absolute path"),
        ((("/home/ann", "../in"),), "must be a path inside"),
        ((("/", "in"),), "is the root folder"),
        ((), "must be 1 to 1,000 pairs"),
    ):
        with pytest.raises(BadInput, match=reason):
            made.do(co.Stage(caller=USER, grant=grant_id(1), key="k", way="in", pairs=pairs))
    with pytest.raises(NotAllowed):
        made.do(co.Stage(caller=co.Caller(role="user", uid=7), grant=grant_id(1), key="k", way="in", pairs=(IN,)))
    with pytest.raises(NotAllowed):
        made.do(co.Copied(caller=agent("y"), node="x", grant=grant_id(1), key="k", progress=SETTLED))
    made.do(co.Release(caller=USER, grant=grant_id(1)))
    with pytest.raises(Refused, match="is releasing; files can be copied once it is ready"):
        stage(made)
    root = service()
    root.register("x", disk("d", 10))
    root.do(co.Request(caller=ADMINISTRATOR, ask=ask(1, 5, uid=0, gid=0)))
    for action in root.control.actions("x"):
        root.do(co.Made(caller=agent("x"), volume=action.volume))
    with pytest.raises(BadInput, match="only as an ordinary user"):
        root.do(co.Stage(caller=ADMINISTRATOR, grant=ask(1, 5).grant, key="k", way="in", pairs=(IN,)))
