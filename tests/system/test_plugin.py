"""The plug-in package of docs/writing-a-policy.md, installed for real and used by name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "docs/plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(PLUGIN)], check=True, capture_output=True, timeout=120)
    return {**os.environ, "PYTHONPATH": str(target)}


def forebay(environment: dict[str, str], *arguments: str) -> dict[str, list[dict[str, object]]]:
    ran = subprocess.run(
        [sys.executable, "-m", "forebay", *arguments, "--json"],
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
        text=True,
    )
    found: dict[str, list[dict[str, object]]] = json.loads(ran.stdout)
    return found


def test_an_installed_policy_is_listed_and_decides(environment: dict[str, str]) -> None:
    assert "square-root" in [p["name"] for p in forebay(environment, "policies")["policies"]]
    example = str(ROOT / "src/forebay/show/examples/machine.toml")
    decided = forebay(environment, "allocate", example, "--allocate", "square-root:scale=2")
    assert [a["n"] for a in decided["applications"]] == [7, 6, 4]


def test_an_installed_policy_conforms(environment: dict[str, str]) -> None:
    code = (
        "from forebay.decide.conformance import check_allocator\n"
        "from forebay_square_root import square_root\n"
        "check_allocator(square_root)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_an_installed_storage_policy_sees_the_fields_of_the_disks(environment: dict[str, str]) -> None:
    example = str(ROOT / "src/forebay/show/examples/burst-buffer.toml")
    options = ["--platform", "32TB/heterogeneous", "--requests", "theta-2020:200", "--policy", "fast-first"]
    disks = forebay(environment, "simulate", example, *options)["disks"]
    used = [disk["max_use"] > 0 for disk in disks]  # type: ignore[operator]
    assert used[0]
    assert used == sorted(used, reverse=True)  # the SSDs come first, and are filled in order


@pytest.mark.parametrize(
    ("file", "first_line"),
    [
        ("forebay_square_root.py", "import math"),
        ("forebay_fast_first.py", "from forebay.decide.policy import Input, storage"),
    ],
)
def test_the_page_shows_the_package_as_it_is(file: str, first_line: str) -> None:
    page = (ROOT / "docs/writing-a-policy.md").read_text()
    shown = re.search(f"```python\n({re.escape(first_line)}\n.*?)```", page, re.DOTALL)
    assert shown is not None
    code = (PLUGIN / file).read_text()
    assert shown[1].strip() in code
    assert len(code.splitlines()) <= 22
