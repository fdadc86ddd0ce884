import re
from pathlib import Path

import pytest

import forebay.act.filesystems.settings as module
from forebay.act.filesystems.settings import Settings, open_filesystem, read_settings
from forebay.model.errors import BadInput

EXAMPLE = Path(module.__file__).parents[2] / "show/examples/filesystem.toml"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "scratch.toml"
    path.write_text("[filesystem]\n" + "\n".join(lines))
    return path


def test_the_example_is_read() -> None:
    settings = read_settings(EXAMPLE)
    assert settings == Settings(kind="lustre", name="scratch", targets=256, max_count=64)
    assert len(open_filesystem(settings).targets()) == 256


def test_every_key_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, 'kind = "lustre"', 'name = "scratch"', 'mount = "/scratch"', 'timeout = "2 min"', "max_count = 16",
        'prometheus = "http://metrics:9090/prom"', "job_stats = true", "window = 30", 'sample = "500 ms"',
    )  # fmt: skip
    assert read_settings(path) == Settings(
        kind="lustre", name="scratch", mount=Path("/scratch"), timeout=120.0, max_count=16,
        prometheus="http://metrics:9090/prom", job_stats=True, window=30.0, sample=0.5,
    )  # fmt: skip


def test_the_keys_that_the_example_leaves_out_are_read(tmp_path: Path) -> None:
    path = tmp_path / "scratch.toml"
    path.write_text(re.sub(r"^# (\w+ = )", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE))
    settings = read_settings(path)
    assert (settings.mount, settings.prometheus) == (Path("/scratch"), "http://metrics.example.org:9090")
    assert (settings.job_stats, settings.window, settings.sample) == (True, 60.0, 1.0)


@pytest.mark.parametrize(
    "line, where, reason",
    [
        ('kind = "lustr"', "kind", "did you mean 'lustre'"),
        ("kind = 3", "kind", "not 3"),
        ('name = "a b"', "name", "only letters"),
        ('name = "x\\"}"', "name", "only letters"),
        ('mount = "scratch"', "mount", "must be an absolute path, not 'scratch'"),
        ("targets = 0", "targets", "must be at least 1, not 0"),
        ("targets = 2.5", "targets", "not 2.5"),
        ("max_count = -1", "max_count", "must be at least 1, not -1"),
        ("timeout = 0", "timeout", "must be longer than 0 s"),
        ("timeout = inf", "timeout", "at most 1 d"),
        ("timeout = nan", "timeout", "must be longer than 0 s"),
        ('timeout = "soon"', "timeout", "soon"),
        ("window = -5", "window", "must be longer than 0 s"),
        ("sample = 0", "sample", "must be longer than 0 s"),
        ('prometheus = "metrics:9090"', "prometheus", "must be like http://host:9090"),
        ('prometheus = "file:///etc/passwd"', "prometheus", "must be like http://host:9090"),
        ('prometheus = "http://host:99999"', "prometheus", "must be like http://host:9090"),
        ('prometheus = "http://"', "prometheus", "must be like http://host:9090"),
        ('prometheus = "http://h/?a=b"', "prometheus", "must be like http://host:9090"),
        ('prometheus = "http://me:secret@host"', "prometheus", "must not contain a user name or password"),
        ("stripes = 3", "stripes", "is not a key of this table"),
    ],
)
def test_an_error_says_the_file_and_the_key(tmp_path: Path, line: str, where: str, reason: str) -> None:
    path = written(tmp_path, *([] if line.startswith("kind") else ['kind = "lustre"']), line)
    with pytest.raises(BadInput, match=reason) as wrong:
        read_settings(path)
    assert str(wrong.value).startswith(f"{path}: filesystem.{where}: ")
    assert "\n" not in str(wrong.value)
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize("line, key", [('prometheus = "http://h"', "prometheus"), ("job_stats = true", "job_stats")])
def test_sources_that_only_lustre_has_are_refused_elsewhere(tmp_path: Path, line: str, key: str) -> None:
    with pytest.raises(BadInput, match=rf"filesystem\.{key}: is only for kind 'lustre'"):
        read_settings(written(tmp_path, 'kind = "beegfs8"', line))


def test_a_file_without_the_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    with pytest.raises(BadInput, match=r"a.toml: filesystem: is missing"):
        read_settings(tmp_path / "a.toml")
    with pytest.raises(BadInput, match="no such file"):
        read_settings(tmp_path / "b.toml")


def test_the_smaller_of_two_limits_counts() -> None:
    assert open_filesystem(Settings(kind="lustre", max_count=5000)).max_count == 2000
    assert open_filesystem(Settings(kind="lustre", max_count=8)).max_count == 8
    assert open_filesystem(Settings(kind="lustre")).max_count == 2000
