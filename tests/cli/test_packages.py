"""Commands without the packages of other roles: what is missing is named with its group, and the rest works."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from forebay.cli.packages import describe_missing, optional_groups

EXAMPLES = Path(__file__).parents[2] / "src/forebay/show/examples"
_COMPILING = "forebay: compiling for this machine (once per version); this takes up to a minute\n"
_MODULES = {
    "pyyaml": {"yaml"},
    "fastapi": {"fastapi", "starlette"},
    "scikit-learn": {"sklearn"},
    "psycopg[binary]": {"psycopg"},
}
_GROUPS = ("agent", "client", "service", "history", "studies", "forwarding", "scale", "postgresql", "train")
# Wraps the finders of an interpreter so that they find no module of the hidden packages, as if none were installed.
_HIDE = """
import sys
class Hider:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in hidden else self.finder.find_spec(name, path, target)
    def __getattr__(self, name): return getattr(self.finder, name)
hidden = set(sys.argv.pop(1).split(","))
sys.meta_path[:] = [Hider(finder) for finder in sys.meta_path]
from forebay.cli import main
main()
"""


def modules(group: str) -> set[str]:
    names = optional_groups().get(group, [])
    return set[str]().union(*(_MODULES.get(name, {name.replace("-", "_")}) for name in names))


def run_with(groups: tuple[str, ...], *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command where only these groups are installed."""
    hidden = set().union(*map(modules, _GROUPS)) - set().union(*map(modules, groups))
    line = [sys.executable, "-c", _HIDE, ",".join(sorted(hidden)), *map(str, words)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    ran.stderr = ran.stderr.replace(_COMPILING, "")  # where nobody has compiled the kernels yet
    return ran


@pytest.mark.processes
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("policies",),
        ("allocate", EXAMPLES / "machine.toml"),
        ("simulate", EXAMPLES / "machine.toml"),
        ("simulate", EXAMPLES / "burst-buffer.toml", "--requests", "theta-2020:50", "--feedback"),
    ],
)
def test_an_installation_without_any_group_allocates_and_simulates(words: tuple[str | Path, ...]) -> None:
    ran = run_with((), *words)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.processes
@pytest.mark.parametrize(
    "words, package, group",
    [
        (("serve", "--check"), "sqlalchemy", "service"),
        (("history", "apps"), "sqlalchemy", "history"),
        (("simulate", EXAMPLES / "machine.toml", "--plot", "plot.png"), "matplotlib", "studies"),
        (("forward", "up", EXAMPLES / "forward.toml", "--check"), "msgspec", "forwarding"),
    ],
)
def test_a_missing_group_is_named_in_one_line(words: tuple[str | Path, ...], package: str, group: str) -> None:
    ran = run_with((), *words)
    line = f"forebay: forebay {words[0]} needs {package}, which is not installed; install it with: pip install"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"{line} 'forebay[{group}]'\n")


@pytest.mark.processes
@pytest.mark.parametrize(
    "group, words, output",
    [
        ("agent", ("agent", "agent.toml", "--check"), "agent.toml: valid: d0\n"),
        ("service", ("serve", "--check", "--db", "service.db"), "the settings are valid\n"),
        ("forwarding", ("forward", "up", EXAMPLES / "forward.toml", "--check"), "forward.toml: valid: "),
    ],
)
def test_a_role_needs_its_own_group_only(
    group: str, words: tuple[str | Path, ...], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("disk").mkdir()
    Path("agent.toml").write_text(
        '[agent]\nnode = "n1"\nservice = "unix:/s"\nfolder = "agent"\n[[disk]]\nname = "d0"\nkind = "directory"\n'
        'root = "disk"\ncapacity = "1 GB"\nread_bandwidth = "2 GB/s"\nwrite_bandwidth = "1 GB/s"\n'
    )
    ran = run_with((group,), *words)
    assert (ran.returncode, ran.stderr) == (0, "") and output in ran.stdout


@pytest.mark.processes
def test_the_demo_runs_what_is_installed_and_says_what_it_skipped(tmp_path: Path) -> None:
    ran = run_with((), "demo", "--out", tmp_path / "demo")
    assert ran.returncode == 2
    assert ran.stderr == "forebay: skipped steps 3 6-10 of the demo; to run all: pip install 'forebay[all]'\n"
    assert "I/O-load 0.418" in ran.stdout and "serves 99.35 % of the bytes" in ran.stdout
    assert ran.stdout.count("skipped: ") == 6


def test_a_module_that_is_in_no_group_is_nobodys_to_install() -> None:
    assert describe_missing(ModuleNotFoundError(name="forebay.nothing"), "simulate") is None


def test_the_agent_and_the_client_need_at_most_ten_packages() -> None:
    assert len(installed_with("agent") | installed_with("client")) <= 10


@pytest.mark.processes
def test_a_client_without_any_group_says_that_the_service_is_away(tmp_path: Path) -> None:
    ran = run_with((), "storage", "list", "--service", f"unix:{tmp_path}/none")
    assert (ran.returncode, ran.stdout) == (2, "") and "no such socket" in ran.stderr


@pytest.mark.processes
def test_a_file_of_storalloc_names_the_group_that_reads_it(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.yml"
    trace.write_text(f"# {tmp_path}\njobs: []\n")  # which no cache has
    ran = run_with((), "simulate", EXAMPLES / "burst-buffer.toml", "--requests", trace)
    assert (ran.returncode, ran.stdout) == (2, "") and ran.stderr.endswith("pip install 'forebay[studies]'\n")


def installed_with(group: str) -> set[str]:
    """All packages that pip installs for a group."""
    names: set[str] = set()
    pending = [("forebay", group)]
    while pending:
        name, extra = pending.pop()
        for text in requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                package = canonicalize_name(requirement.name)
                if package not in names:
                    names.add(package)
                    pending += [(package, each) for each in ("", *requirement.extras)]
    return names
