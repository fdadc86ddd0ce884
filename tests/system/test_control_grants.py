"""The whole path with real processes: a request, a space, what is written into it, and its end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_processes import MB, NEVER, SILENT, System, control_system
from support.ports import free_ports
from support.processes import PATIENCE, limited, piped, started, wait_until

ROOT = os.geteuid() == 0
USER = 12345 if ROOT else os.geteuid()


@pytest.fixture
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """Where a parameter says so, its nodes are silent after so many seconds."""
    with control_system(getattr(request, "param", NEVER)) as made:
        yield made


@pytest.fixture
def plain(system: System) -> System:
    """One node with one disk that any user may have."""
    system.add_agent("n1", "directory")
    system.start()
    return system


def state(system: System, grant: str) -> str:
    with system.client() as client:
        return str(client.grant(grant)["state"])


def wait_state(system: System, grant: str, wanted: str) -> None:
    wait_until(lambda: state(system, grant) == wanted, f"{grant} did not become {wanted}")


@pytest.mark.skipif(not ROOT, reason="mounts need root")
def test_a_user_gets_a_mounted_private_space_of_the_size_asked_and_it_is_gone_after_the_release(system: System) -> None:
    system.add_agent("n1", "loop")
    system.start()
    with system.client() as client:
        asked = client.request(20 * MB, "1h", uid=USER, gid=USER)
        *_, grant = client.follow(asked)
        path = Path(grant["path"])
        assert os.path.ismount(path) and (path.stat().st_uid, path.stat().st_mode & 0o777) == (USER, 0o700)
        written = ("dd", "if=/dev/zero", f"of={path}/data", "bs=1000000", "count=20", "conv=fsync", "status=none")
        subprocess.run(written, user=USER, check=True, timeout=PATIENCE)
        room = os.statvfs(path)
        assert room.f_bavail * room.f_frsize < 3 * MB, "the size is not kept"
        assert client.mark_used(grant["id"])["state"] == "in-use"
        client.release(grant["id"])
        wait_state(system, grant["id"], "released")
    assert not path.exists() and system.on_disks() == []


def test_nobody_but_the_owner_and_an_administrator_may_show_extend_or_release(plain: System) -> None:
    owner = plain.token("owner", "user", uid=USER)
    other = plain.token("other", "user", uid=USER + 1)
    done = plain.command("request", "--size", "10MB", "--time", "1h", "--wait", token=owner)
    assert done.returncode == 0, done.stderr
    grant = done.stdout.split()[1].rstrip(":")
    for words in (("show", grant), ("extend", grant, "--by", "1h"), ("release", grant)):
        refused = plain.command(*words, token=other)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
        assert "only its owner or an administrator may" in refused.stderr
    assert plain.command("drain", "n1", token=owner).stderr == "forebay: only an administrator may do this\n"
    assert plain.command("list", token=other).stdout == "no grants\n"
    assert plain.command("release", grant, token=owner).returncode == 0


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_agents_and_clients_can_come_by_https_with_tokens_and_an_agent_only_for_its_own_node(system: System) -> None:
    port = free_ports(1)[0]
    certificate, key = certified(system.folder)
    system.configure(f"listen = '127.0.0.1:{port}'\ncertificate = '{certificate}'\nkey = '{key}'")
    url = f"https://127.0.0.1:{port}"
    by_https = f"service = '{url}'\nauthority = '{certificate}'\ntoken = '{system.folder}/n1.token'"
    system.token("n1", "agent", node="n1")
    user = system.token("owner", "user", uid=USER)
    system.add_agent("n1", "directory", more=by_https)
    system.start()
    system.address = url
    words = ("request", "--size", "10MB", "--time", "1h", "--wait", "--authority", str(certificate))
    done = system.command(*words, token=user)
    assert done.returncode == 0 and Path(done.stdout.split()[-1]).stat().st_uid == USER, done.stderr
    anonymous = system.command("list", "--authority", str(certificate))
    assert anonymous.returncode == 2 and "authentication required" in anonymous.stderr
    stranger = system.add_agent("n2", "directory", more=by_https)
    stranger.start()
    wait_until(lambda: "may not report for node 'n2'" in stranger.said(), "another's node was not refused")


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1")
    names = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate))
    subprocess.run((*made, *names), check=True, capture_output=True, timeout=PATIENCE)
    key.chmod(0o600)
    return certificate, key


def test_paths_come_out_for_a_shell(plain: System) -> None:
    done = plain.command("request", "--size", "10MB", "--time", "1h", "--env")
    assert done.returncode == 0, done.stderr
    shell = subprocess.run(["sh", "-c", 'eval "$0"; test -d "$FOREBAY_PATH" && echo "$FOREBAY_PATHS"', done.stdout],
                           capture_output=True, text=True, check=True, timeout=PATIENCE)  # fmt: skip
    assert shell.stdout.strip() == str(plain.on_disks()[0].path)


def test_a_grant_above_the_threshold_is_split_over_two_disks(system: System) -> None:
    system.add_agent("n1", "directory", capacity="130 MB")
    system.add_agent("n2", "directory", capacity="130 MB")
    system.start()
    grant = system.told("request", "--size", "200MB", "--time", "1h", "--wait")
    assert len(grant["paths"]) == 2 and all(Path(path).is_dir() for path in grant["paths"])
    assert {volume["node"] for volume in grant["volumes"]} == {"n1", "n2"}


def test_more_than_fits_waits_in_the_queue_and_gets_its_space_when_somebody_gives_some_back(plain: System) -> None:
    first = plain.told("request", "--size", "80MB", "--time", "1h", "--wait")
    second = plain.told("request", "--size", "80MB", "--time", "1h")
    assert (second["state"], second["position"]) == ("queued", 1)
    late = plain.command("wait", second["id"], "--at-most", "1s")
    assert late.returncode == 2 and "queued, place 1: no room for 80.00 MB" in late.stderr
    assert "is still queued; to wait again" in late.stderr
    assert plain.command("release", first["id"], "--wait").stdout == f"grant {first['id']}: released\n"
    assert plain.told("wait", second["id"])["state"] == "ready"
    assert [made.name for made in plain.on_disks()] == [f"{second['id']}.0"]


def test_what_can_never_be_is_refused_in_one_line(plain: System) -> None:
    done = plain.command("request", "--size", "1TB", "--time", "1h", "--wait")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "was refused: all disks together have 100.00 MB, less than 1.00 TB" in done.stderr


def test_a_grant_ends_with_its_time_and_its_space_is_free(plain: System) -> None:
    grant = plain.told("request", "--size", "80MB", "--time", "2s")
    wait_state(plain, grant["id"], "expired")
    assert plain.on_disks() == []
    assert plain.told("request", "--size", "80MB", "--time", "1h", "--wait")["state"] == "ready"


def test_an_extension_is_kept(plain: System) -> None:
    grant = plain.told("request", "--size", "10MB", "--time", "1h")
    longer = plain.told("extend", grant["id"], "--by", "1h")
    assert longer["until"] - grant["until"] == pytest.approx(3600)


def test_a_drained_node_gets_nothing_new_until_it_is_undrained(plain: System) -> None:
    old = plain.told("request", "--size", "10MB", "--time", "1h", "--wait")
    assert plain.command("drain", "n1").returncode == 0
    assert " drained " in plain.command("nodes").stdout
    new = plain.told("request", "--size", "10MB", "--time", "1h")
    assert new["state"] == "queued" and state(plain, old["id"]) == "ready"
    assert plain.command("undrain", "n1").returncode == 0
    assert plain.told("wait", new["id"])["state"] == "ready"


@pytest.mark.parametrize("system", [SILENT], indirect=True)
def test_a_silent_node_gets_nothing_new_its_owners_are_told_and_it_may_come_back(plain: System) -> None:
    old = plain.told("request", "--size", "10MB", "--time", "1h", "--wait")
    plain.agents["n1"].signal(signal.SIGSTOP)
    wait_until(lambda: " silent " in plain.command("nodes").stdout, "the node did not fall silent")
    assert "node n1 does not answer" in plain.command("show", old["id"]).stdout
    new = plain.told("request", "--size", "10MB", "--time", "1h")
    assert new["state"] == "queued"
    plain.agents["n1"].signal(signal.SIGCONT)
    assert plain.told("wait", new["id"])["state"] == "ready"
    wait_until(
        lambda: "does not answer" not in plain.command("show", old["id"]).stdout.split("Volumes")[0],
        "its owner is still told so",
    )


def test_one_place_tells_the_story_of_a_grant(plain: System) -> None:
    grant = plain.told("request", "--size", "10MB", "--time", "1h", "--wait")["id"]
    plain.command("release", grant, "--wait")
    wait_until(
        lambda: "n1: gone: volume" in plain.command("show", grant, "--story").stdout, "the agent's log is missing"
    )
    story = plain.command("show", grant, "--story").stdout
    for part in ("requests", "service: granted: n1/d0", "n1: made: volume", "service: ready", "service: released"):
        assert part in story


def test_ctrl_c_gives_back_what_was_waited_for(plain: System) -> None:
    first = plain.told("request", "--size", "80MB", "--time", "1h", "--wait")
    words = ("request", "--size", "80MB", "--time", "1h", "--wait", "--service", plain.address)
    argv = [sys.executable, "-m", "forebay", "storage", *words]
    with started(argv, stderr=subprocess.PIPE, text=True) as waiting:
        told = piped(waiting.stderr)
        assert "queued, place 1" in limited(told.readline)
        waiting.send_signal(signal.SIGINT)
        rest = limited(told.read)
        assert waiting.wait(PATIENCE) == 130 and ": released" in rest
    assert [grant["id"] for grant in plain.told("list")] == [first["id"]]


def test_a_service_that_is_away_is_told_in_one_line(system: System) -> None:
    done = system.command("list")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"cannot reach the service at {system.address}: no such socket" in done.stderr


@pytest.mark.skipif(not ROOT or not shutil.which("nbdkit"), reason="needs root and nbdkit")
def test_an_exposed_volume_is_served_again_after_the_agent_was_killed(system: System) -> None:
    system.add_agent("n1", "loop:nbd")
    system.start()
    grant = system.told("request", "--size", "20MB", "--time", "1h", "--expose", "nbd", "--wait")
    settings = grant["volumes"][0]["settings"]
    where = settings["address"], int(settings["port"])
    socket.create_connection(where, 60).close()
    system.agents["n1"].kill()
    system.agents["n1"].start()
    wait_until(lambda: _answers(where), "it is not served again")
    wait_state(system, grant["id"], "ready")
    system.command("release", grant["id"], "--wait")
    assert not _answers(where) and system.on_disks() == []


def _answers(where: tuple[str, int]) -> bool:
    try:
        socket.create_connection(where, 60).close()
    except OSError:
        return False
    return True
