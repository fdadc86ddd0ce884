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
Listed = dict[tuple[object, object], dict[str, object]]
"""Policies by their kinds and names."""


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


@pytest.fixture(scope="module")
def listed(environment: dict[str, str]) -> Listed:
    return {(p["kind"], p["name"]): p for p in forebay(environment, "policies")["policies"]}


def test_an_installed_policy_is_listed_and_decides(environment: dict[str, str], listed: Listed) -> None:
    assert ("allocate", "square-root") in listed
    example = str(ROOT / "src/forebay/show/examples/machine.toml")
    decided = forebay(environment, "allocate", example, "--allocate", "square-root:scale=2")
    assert [a["n"] for a in decided["applications"]] == [7, 6, 4]


def test_installed_policies_conform(environment: dict[str, str]) -> None:
    code = (
        "from forebay.decide import conformance\n"
        "from forebay.decide.registry import find\n"
        "conformance.check_allocator(find('allocate', 'square-root'))\n"
        "conformance.check_striping(find('stripe', 'by-volume'))\n"
        "conformance.check_order(find('order', 'reads-first'))\n"
        "conformance.check_tuner(find('tune', 'try-twice'))\n"
        "conformance.check_schedule(find('schedule', 'small-first'))\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_an_installed_storage_policy_sees_the_fields_of_the_disks(environment: dict[str, str]) -> None:
    example = str(ROOT / "src/forebay/show/examples/burst-buffer.toml")
    options = ["--platform", "32TB/heterogeneous", "--requests", "theta-2020:200", "--policy", "fast-first"]
    disks = forebay(environment, "simulate", example, *options)["disks"]
    used = [disk["max_use"] > 0 for disk in disks]  # type: ignore[operator]
    assert used[0]
    assert used == sorted(used, reverse=True)  # the SSDs come first, and are filled in order


def test_an_installed_striping_policy_is_listed_and_takes_options(environment: dict[str, str], listed: Listed) -> None:
    assert listed["stripe", "by-volume"]["inputs"] == ["free space", "earlier runs", "targets in use"]
    code = (
        "from forebay.decide.registry import find\n"
        "from forebay.decide.stripe.view import Past, StripeView\n"
        "from forebay.model.layout import Target\n"
        "run = Past(run=5, processes=4, count=1, size=1 << 20, throughput=1e9, io_bytes=350)\n"
        "targets = tuple(Target(index=k, users=int(k == 1)) for k in range(6))\n"
        "view = StripeView(application='a', processes=4, targets=targets, runs=(run,))\n"
        "answer = find('stripe', 'by-volume:share=100').decide(view)\n"
        "assert answer.targets == (2, 3, 4, 5), answer\n"
        "assert answer.reason == 'its latest run moved 350 B; no running job uses these 4 targets', answer\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_an_installed_scheduler_is_listed_and_orders_requests(environment: dict[str, str], listed: Listed) -> None:
    assert listed["order", "reads-first"]["options"] == {"patience": 64}
    code = (
        "from forebay.decide.order.queue import arrive, new_queue, take_of\n"
        "from forebay.decide.registry import find\n"
        "policy = find('order', 'reads-first:patience=2')\n"
        "queue, take = new_queue(policy, servers=1), take_of(policy)\n"
        "slots = [arrive(queue, 0, 0, 0, 0, 0, 4096, write) for write in (1, 0, 0, 0)]\n"
        "assert [slots.index(take(queue, 0)) for _ in slots] == [1, 2, 0, 3]\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_an_installed_tuner_is_listed(listed: Listed) -> None:
    assert listed["tune", "try-twice"]["source"] == "an example"


@pytest.mark.parametrize(
    ("file", "first_line"),
    [
        ("forebay_square_root.py", "import math"),
        ("forebay_fast_first.py", "from forebay.decide.policy import Input, storage"),
        ("forebay_by_volume.py", "from forebay.decide.policy import Input, striping"),
        ("forebay_reads_first.py", "from forebay.decide.order.queue_layout import NONE"),
        ("forebay_try_twice.py", "from forebay.decide.policy import tuner"),
        ("forebay_small_first.py", "import numpy as np"),
    ],
)
def test_the_page_shows_the_package_as_it_is(file: str, first_line: str) -> None:
    page = (ROOT / "docs/writing-a-policy.md").read_text()
    shown = re.search(f"```python\n({re.escape(first_line)}\n.*?)```", page, re.DOTALL)
    assert shown is not None
    code = (PLUGIN / file).read_text()
    assert shown[1].strip() in code
    assert len(code.splitlines()) <= 25
