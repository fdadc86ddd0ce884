"""One suite for every file system: whatever the commands are called, they have to keep the same promises."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.act.command import CommandFailed, format_command, run
from forebay.act.filesystems import filesystem
from forebay.act.filesystems.filesystem import LayoutRefused
from forebay.act.filesystems.settings import Kind, Settings, open_filesystem
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, GRAIN, MOST_SIZE, Layout
from support.examples import examples
from support.filesystems import KINDS, VERBS, Doing, Pretend, Pretended
from support.processes import wait_until

MIB = 1 << 20
WANTED = Layout(count=4, size=4 * MIB)
EARLIER = Layout(count=2, size=2 * MIB)


@pytest.fixture(params=KINDS)
def pretended(request: pytest.FixtureRequest, pretend: Pretend) -> Pretended:
    return pretend(request.param)


def test_what_is_set_reads_back(pretended: Pretended) -> None:
    folder = pretended.folder("run")
    assert pretended.system.layout(folder) == Layout(count=1, size=MIB)
    assert pretended.system.apply(WANTED, folder).layout == WANTED == pretended.system.layout(folder)
    assert list(pretended.system.set_command(WANTED, folder)) == pretended.calls("set")[0]


def test_notes_say_that_existing_files_keep_their_layout(pretended: Pretended) -> None:
    notes = pretended.system.apply(WANTED, pretended.folder("run")).notes
    assert any("existing file keeps its layout" in note for note in notes)


def test_a_folder_has_the_layout_of_the_one_above_until_it_has_its_own(pretended: Pretended) -> None:
    pretended.system.apply(EARLIER, pretended.folder("project"))
    inner = pretended.folder("project/run")  # on Lustre only one that is made now
    assert pretended.system.layout(inner) == EARLIER
    pretended.system.apply(WANTED, inner)
    assert (pretended.system.layout(inner), pretended.system.layout(inner.parent)) == (WANTED, EARLIER)


def test_a_refusal_shows_the_words_and_leaves_all_as_it_was(pretended: Pretended) -> None:
    folder = pretended.folder("run")
    pretended.system.apply(EARLIER, folder)
    before = pretended.state()["layouts"]
    pretended.refuse("set", "error on ioctl for run: Operation not permitted")
    with pytest.raises(LayoutRefused, match=r"Operation not permitted \(exit 1\); the layout is unchanged$") as refused:
        pretended.system.apply(WANTED, folder)
    assert "\n" not in str(refused.value)
    assert pretended.state()["layouts"] == before
    assert len(pretended.calls("set")) == 2  # and nothing more was tried


@pytest.mark.parametrize("own", [True, False], ids=["a layout of its own", "none of its own"])
def test_another_layout_than_asked_for_is_put_back(pretended: Pretended, own: bool) -> None:
    folder = pretended.folder("run")
    if own:
        pretended.system.apply(EARLIER, folder)
    before = pretended.system.undo_commands(folder)
    pretended.change(alter={VERBS[pretended.kind]["set"]: {"count": 3}}, once=True)
    with pytest.raises(LayoutRefused, match=r"reads back as 3 stripes .* not 4 .*the earlier layout is restored$"):
        pretended.system.apply(WANTED, folder)
    assert pretended.system.undo_commands(folder) == before
    assert pretended.system.layout(folder) == (EARLIER if own else Layout(count=1, size=MIB))


def test_a_command_that_changes_nothing_is_a_refusal(pretended: Pretended) -> None:
    pretended.change(ignore=[VERBS[pretended.kind]["set"]])
    with pytest.raises(LayoutRefused, match=r"reads back as 1 stripe of 1 MiB, not 4 .*; the layout is unchanged$"):
        pretended.system.apply(WANTED, pretended.folder("run"))


def test_an_earlier_layout_that_can_not_be_put_back_is_said(pretended: Pretended) -> None:
    pretended.change(alter={VERBS[pretended.kind]["set"]: {"count": 3}})  # every time
    with pytest.raises(LayoutRefused) as refused:
        pretended.system.apply(WANTED, pretended.folder("run"))
    restored = pretended.kind == "lustre"  # where the folder had none, and taking it away is no matter of numbers
    assert ("is restored" if restored else "cannot restore the earlier layout; try ") in str(refused.value)


def test_what_can_not_be_read_back_is_put_back(pretended: Pretended) -> None:
    folder = pretended.folder("run")
    # An apply asks for the way back to the layout before, and then reads back; on Lustre for the pool first.
    pretended.change(broken={VERBS[pretended.kind]["get"]: 3 if pretended.kind == "lustre" else 2})
    with pytest.raises(LayoutRefused, match=r"Input/output error \(exit 5\); the earlier layout is restored$"):
        pretended.system.apply(WANTED, folder)
    assert len(pretended.calls("set")) == 2
    assert pretended.system.layout(folder) == Layout(count=1, size=MIB)


def test_when_nothing_can_be_read_any_more_the_way_back_is_said(pretended: Pretended) -> None:
    folder = pretended.folder("run")
    undo = " && ".join(map(format_command, pretended.system.undo_commands(folder)))
    asked = 4 if pretended.kind == "lustre" else 3
    pretended.refuse("set", "No space left on device", code=28, broken={VERBS[pretended.kind]["get"]: asked}, once=True)
    with pytest.raises(LayoutRefused) as refused:
        pretended.system.apply(WANTED, folder)
    assert "No space left on device (exit 28); the current layout is unknown" in str(refused.value)
    assert str(refused.value).endswith(f"Input/output error (exit 5)); to restore the earlier one: {undo}")


def test_an_interrupt_leaves_all_as_it_was(pretended: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pretended.folder("run")
    before = pretended.system.undo_commands(folder)

    def interrupted(argv: Sequence[str], *, timeout: float) -> str:
        monkeypatch.setattr(filesystem, "run", run)
        run(argv, timeout=timeout)
        raise KeyboardInterrupt

    monkeypatch.setattr(filesystem, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pretended.system.apply(WANTED, folder)
    assert len(pretended.calls("set")) == 2
    assert pretended.system.undo_commands(folder) == before


def test_an_earlier_layout_that_can_not_be_read_is_not_touched(pretended: Pretended) -> None:
    pretended.change(broken={VERBS[pretended.kind]["get"]: 2 if pretended.kind == "lustre" else 1})
    with pytest.raises(CommandFailed, match=r"Input/output error \(exit 5\)$"):
        pretended.system.apply(WANTED, pretended.folder("run"))
    assert pretended.calls("set") == []


def test_a_count_beyond_the_usable_targets_is_refused_before_anything_is_done(pretended: Pretended) -> None:
    folder = pretended.folder("run")
    for index in (3, 4):
        pretended.lose(index)
    with pytest.raises(BadInput, match="stripe count 7: only 6 of 8 targets are usable"):
        pretended.system.apply(Layout(count=7), folder)
    assert pretended.calls("set") == []
    assert pretended.system.apply(Layout(count=6), folder).layout.count == 6


def test_a_count_beyond_what_the_settings_allow_is_refused(pretended: Pretended) -> None:
    limited = open_filesystem(Settings(kind=pretended.kind, targets=8, max_count=3, timeout=60.0))
    with pytest.raises(BadInput, match="stripe count 4: the file system allows at most 3"):
        limited.apply(WANTED, pretended.folder("run"))
    assert limited.max_count == 3


def test_a_folder_that_is_not_there_is_one_line(pretended: Pretended) -> None:
    with pytest.raises(BadInput, match=r"nowhere: no such folder$"):
        pretended.system.apply(WANTED, pretended.mount / "nowhere")
    (pretended.mount / "file").touch()
    with pytest.raises(BadInput, match=r"file: is not a folder$"):
        pretended.system.apply(WANTED, pretended.mount / "file")
    with pytest.raises(BadInput, match=r": file name too long$"):
        pretended.system.apply(WANTED, pretended.mount / ("x" * 300))
    assert pretended.state()["log"] == []


def test_a_folder_on_another_file_system_is_refused_in_the_commands_words(pretended: Pretended, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(CommandFailed, match=r"elsewhere.*\(exit \d+\)$"):
        pretended.system.apply(WANTED, elsewhere)
    assert pretended.state()["layouts"] == {}


@pytest.mark.parametrize("name", ["with space", "-c", "ünï", "a'b\"c$(x)"])
def test_names_of_folders_are_never_taken_for_anything_else(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pretended.folder(name)
    monkeypatch.chdir(pretended.mount)
    assert pretended.system.apply(WANTED, Path(name)).layout == WANTED
    assert list(pretended.state()["layouts"]) == [str((pretended.mount / name).resolve())]


def test_targets_have_their_free_space_and_are_ascending(pretended: Pretended) -> None:
    state = pretended.state()
    pretended.change(targets=state["targets"][::-1])
    targets = pretended.system.targets()
    assert [t.index for t in targets] == [t["index"] for t in state["targets"]]
    assert all(t.usable and not t.because for t in targets)
    error = 2**30 * 0.1 if pretended.kind == "beegfs7" else 1024  # as exact as the command prints it
    assert [t.free_bytes for t in targets] == pytest.approx([t["free"] for t in state["targets"]], abs=error)


def test_a_target_that_is_away_is_not_usable_and_says_why(pretended: Pretended) -> None:
    pretended.lose(5)
    targets = {t.index: t for t in pretended.system.targets()}
    assert len(targets) == 8
    assert [i for i, t in targets.items() if not t.usable] == [5]
    assert targets[5].because in ("inactive device", "offline")


@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_targets_are_all_found(pretend: Pretend, kind: Kind) -> None:
    assert len(pretend(kind, targets=256).system.targets()) == 256


def test_a_known_number_of_targets_asks_nobody(pretended: Pretended) -> None:
    system = open_filesystem(Settings(kind=pretended.kind, targets=256))
    assert [t.index for t in system.targets()] == list(range(256))
    assert all(t.usable for t in system.targets())
    assert pretended.state()["log"] == []


def test_a_configured_number_of_targets_does_not_make_them_exist(pretended: Pretended) -> None:
    claims = open_filesystem(pretended.settings.model_copy(update={"targets": 64}))
    with pytest.raises(BadInput, match="stripe count 9: only 8 of 64 targets are usable"):
        claims.apply(Layout(count=9), pretended.folder("run"))
    assert pretended.calls("set") == []
    assert claims.apply(Layout(count=8), pretended.folder("run")).layout.count == 8


def test_an_empty_list_is_one_line(pretended: Pretended) -> None:
    pretended.change(targets=[])
    with pytest.raises(BadInput, match="lists no targets"):
        pretended.system.targets()


def test_a_list_that_fails_altogether_is_one_line(pretended: Pretended) -> None:
    pretended.refuse("list", "error: Cannot send after transport endpoint shutdown", code=108)
    with pytest.raises(CommandFailed, match=r"transport endpoint shutdown \(exit 108\)$"):
        pretended.system.targets()


@pytest.mark.parametrize("code", [0, 9])
@pytest.mark.parametrize("text", ["", "[", "lmm_stripe_count: many"])
def test_answers_that_make_no_sense_are_one_line(pretended: Pretended, text: str, code: int) -> None:
    verbs = VERBS[pretended.kind]
    pretended.change(say={verbs["list"]: [code, text], verbs["get"]: [code, text]})
    for ask in (pretended.system.targets, lambda: pretended.system.layout(pretended.folder("run"))):
        with pytest.raises(UserError) as wrong:
            ask()
        assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("doing", ["set", "get", "list"])
def test_a_command_that_hangs_is_stopped_with_all_it_started(pretended: Pretended, doing: Doing) -> None:
    folder = pretended.folder("run")
    if (pretended.kind, doing) == ("lustre", "list"):
        doing = "get"  # its list can be done without: see the tests of Lustre
    pretended.change(hang=[VERBS[pretended.kind][doing]])
    hasty = open_filesystem(Settings(kind=pretended.kind, mount=pretended.mount, timeout=1.0))
    with pytest.raises(UserError, match=r"no answer within 1 s; stopped"):
        hasty.apply(WANTED, folder)
    assert pretended.state()["layouts"] == {}
    wait_until(lambda: not _alive(pretended.state().get("child")), "what it started goes on")


def _alive(pid: int | None) -> bool:
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_command_that_is_missing_is_named(pretended: Pretended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    name = VERBS[pretended.kind]["list"].split()[0]
    with pytest.raises(CommandFailed, match=f"^{name}: command not found"):
        pretended.system.targets()


layouts = st.builds(
    Layout,
    count=st.integers(1, 8),
    size=st.one_of(
        st.integers(1, MOST_SIZE // GRAIN).map(lambda n: n * GRAIN), st.integers(16, 31).map(lambda power: 1 << power)
    ),
    start=st.integers(ANY, 7),
)


@settings(max_examples=examples(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts)
def test_every_layout_reads_back_as_fitted(pretended: Pretended, layout: Layout) -> None:
    folder = pretended.folder("run")
    fitted = pretended.system.fit(layout)
    assert pretended.system.apply(layout, folder).layout == fitted.layout
    assert fitted.layout == layout or len(fitted.notes) > 1  # what is changed is said


@given(layout=layouts)
@pytest.mark.parametrize("kind", KINDS)
def test_fitting_twice_changes_nothing(kind: Kind, layout: Layout) -> None:
    system = open_filesystem(Settings(kind=kind, targets=8))
    fitted = system.fit(layout).layout
    assert system.fit(fitted).layout == fitted
    assert system.set_command(layout, Path("/x")) == system.set_command(fitted, Path("/x"))
