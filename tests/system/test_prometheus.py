"""Debian's Prometheus scrapes a service and a forwarding layer, and answers all that dashboard and alerts ask it."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from generate.metrics import PARTS
from support.certificates import certificate
from support.control_processes import SILENT, System, control_system
from support.doc_options import wrong_options
from support.forward_processes import Layer, Part, layer, start
from support.ports import free_ports
from support.processes import PATIENCE, wait_until

MISSING = [name for name in ("prometheus", "promtool", "openssl") if not shutil.which(name)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

EXAMPLES = Path(__file__).parents[2] / "examples"
RULES = EXAMPLES / "prometheus"
EVERY = "500ms"
_MB = 10**6
QUIET = {
    "max by (node) (forebay_node_silent) > 0": "all nodes answer",
}
"""What finds nothing where all is well, and why."""
NOT_QUIET = {
    "ForebayRequestsRefused": "one request was",
    "ForebayDecisionsSlow": "they are, where others use the machine",
}


@dataclass
class Scene:
    """Prometheus at a port, and what it scrapes."""

    system: System
    layer: Layer
    node: Part
    port: int

    def ask(self, query: str) -> list[float]:
        """The values that a query has now."""
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{urlencode({'query': query})}", timeout=60) as answer:
            found = json.load(answer)
        assert found["status"] == "success" and found["data"]["resultType"] == "vector", (query, found)
        return [float(one["value"][1]) for one in found["data"]["result"]]

    def soon(self, query: str) -> None:
        """Until it finds something that is a number."""
        wait_until(lambda: self._finds(query), f"finds nothing: {query}")

    def quiet(self, query: str) -> None:
        """Until it finds nothing."""
        wait_until(lambda: not self._finds(query), f"still finds something: {query}")

    def _finds(self, query: str) -> bool:
        if any(not math.isnan(value) for value in self.ask(query)):
            return True
        sleep(0.05)  # it has work to do
        return False


@contextmanager
def _scene(folder: Path) -> Iterator[Scene]:
    own, key = certificate(folder)
    listen, ion, council, port, *servers = free_ports(6)
    with control_system(SILENT) as system, layer() as forward:
        system.configure(f"listen = '127.0.0.1:{listen}'\ncertificate = '{own}'\nkey = '{key}'")
        system.add_agent("n1", "directory", more='fields = { tier = "nvme" }')
        system.start()
        node = _forwarding(forward, ion, servers, council)
        token = system.token("prometheus", "metrics")
        config = _config(
            folder, own, token, {"forebay": [listen], "ion": [ion], "server": servers, "council": [council]}
        )
        with _prometheus(folder, config, port):
            found = Scene(system, forward, node, port)
            found.soon("forebay_refused_total == 0")
            _work(found, token)
            yield found


def _forwarding(forward: Layer, ion: int, servers: list[int], council: int) -> Part:
    """Two data servers, an I/O node and a council, which show their metrics."""
    forward.add_servers(2, more=[("--metrics", f"127.0.0.1:{port}") for port in servers])
    part, address = forward.add_council("--metrics", f"127.0.0.1:{council}")
    forward.add_nodes(1, "--metrics", f"127.0.0.1:{ion}", "--council", address, "--scheduler", "twins")
    start(*forward.servers, part)
    start(*forward.nodes)
    return forward.nodes[0]


def _work(scene: Scene, token: Path) -> None:
    """Something of all that is counted."""
    assert scene.system.command("request", "--size", "10MB", "--time", "1h").returncode == 0
    assert "was refused" in scene.system.command("request", "--size", "1TB", "--time", "1h").stderr
    assert "permits only GET /metrics" in scene.system.command("list", token=token).stderr
    wrong = token.with_name("wrong.token")
    wrong.write_text("wrong" * 8)
    wrong.chmod(0o600)
    assert "unknown token" in scene.system.command("list", token=wrong).stderr
    with scene.layer.client() as client, client.open("/f", os.O_CREAT | os.O_RDWR) as file:
        for block in range(40):
            file.pwrite(bytes(100_000), block * 100_000)
        assert len(file.pread(_MB, 0)) == _MB


def _config(folder: Path, authority: Path, token: Path, ports: dict[str, list[int]]) -> Path:
    """The example with addresses of this machine, and more often."""
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": EVERY, "evaluation_interval": EVERY, "scrape_timeout": EVERY}
    service, forward = config["scrape_configs"]
    service["tls_config"]["ca_file"], service["authorization"]["credentials_file"] = str(authority), str(token)
    for each in (*service["static_configs"], *forward["static_configs"]):
        each["targets"] = [f"127.0.0.1:{port}" for port in ports[each.get("labels", {}).get("part", "forebay")]]
    shutil.copy(RULES / "alerts.yml", folder)
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    _promtool("check", "config", str(path))
    return path


@contextmanager
def _prometheus(folder: Path, config: Path, port: int) -> Iterator[None]:
    words = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(("prometheus", *words, f"--web.listen-address=127.0.0.1:{port}"), stderr=log)
    try:
        wait_until(lambda: _is_ready(port), (folder / "log").read_text())
        yield
    finally:
        process.kill()
        process.wait(PATIENCE)


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _promtool(*words: str) -> str:
    done = subprocess.run(("promtool", *words), capture_output=True, text=True, timeout=PATIENCE, cwd=RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _dashboard() -> list[tuple[str, str]]:
    """Titles of panels and their queries."""
    board: Any = json.loads((EXAMPLES / "grafana" / "forebay.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel.get("targets", ())]


def _alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_the_alerts_are_rules_and_fire_when_they_should() -> None:
    assert f"{len(_alerts())} rules found" in _promtool("check", "rules", "alerts.yml")
    assert "SUCCESS" in _promtool("test", "rules", "alerts_test.yml")
    tested = (RULES / "alerts_test.yml").read_text()
    assert [name for name in _alerts() if name not in tested] == []


def test_every_alert_says_what_to_do_next() -> None:
    for name, rule in _alerts().items():
        assert set(rule["annotations"]) == {"summary", "description", "next"}, name
        said = re.sub(r"(?:^|[:;.,] |then |and )(?=forebay )", "\n", rule["annotations"]["next"])
        assert wrong_options(re.sub(r"[.:,] ", "\n", said)) == [], name


def test_prometheus_answers_all_that_dashboard_and_alerts_ask(tmp_path: Path) -> None:
    """One scene for all of it, as to start it takes longest."""
    with _scene(tmp_path) as scene:
        _what_is_shown_is_what_happened(scene)
        _every_query_of_the_dashboard_finds_what_is_there(scene)
        _no_alert_fires_where_all_is_well_and_each_has_its_numbers(scene)
        _a_refusal_is_seen(scene)
        _an_agent_and_an_io_node_that_die_are_seen(scene)


def _every_query_of_the_dashboard_finds_what_is_there(scene: Scene) -> None:
    for _, query in _dashboard():
        asked = query.replace("$__rate_interval", "1m")
        if query in QUIET:
            scene.quiet(asked)
        elif "window_ratio" in query:
            _much_is_written_until(scene, asked)
        else:
            scene.soon(asked)


def _much_is_written_until(scene: Scene, query: str) -> None:
    """A window has a length where something waits for it, and for the one after it."""

    def write(name: str) -> None:
        with scene.layer.client() as client, client.open(name, os.O_CREAT | os.O_RDWR) as file:
            for block in range(8):
                file.pwrite(bytes(_MB), block * _MB)

    def written() -> bool:
        list(pool.map(write, ("/a", "/b", "/c", "/d")))
        return any(not math.isnan(value) for value in scene.ask(query))

    with ThreadPoolExecutor(4) as pool:
        wait_until(written, f"finds nothing: {query}")


def _no_alert_fires_where_all_is_well_and_each_has_its_numbers(scene: Scene) -> None:
    for name, rule in _alerts().items():
        scene.soon(re.split(r" (?:==|>|<) ", rule["expr"])[0])
        if name not in NOT_QUIET:
            scene.quiet(rule["expr"])


def _what_is_shown_is_what_happened(scene: Scene) -> None:
    scene.soon(f'forebay_tier_used_bytes{{job="forebay", tier="nvme"}} == {10 * _MB}')
    scene.soon('forebay_api_requests_total{status="401"} >= 1')
    scene.soon(f"sum(forebay_ion_bytes_written_total) == {4 * _MB}")
    scene.soon(f"sum(forebay_server_bytes_written_total) == {4 * _MB}")
    scene.soon("forebay_council_nodes == 1")
    scraped = [metrics for part, metrics in PARTS.items() if part != "history watch"]  # which writes a file
    for metric in (metric for metrics in scraped for metric in metrics):
        scene.soon(f"{metric.full_name}_count" if metric.kind == "histogram" else metric.full_name)


def _a_refusal_is_seen(scene: Scene) -> None:
    scene.soon(_alerts()["ForebayRequestsRefused"]["expr"])
    scene.soon('rate(forebay_refused_total{reason="too-large"}[1m]) > 0')


def _an_agent_and_an_io_node_that_die_are_seen(scene: Scene) -> None:
    scene.system.agents["n1"].kill()
    scene.node.kill()
    scene.soon('up{job="forebay-forward", part="ion"} == 0')
    scene.soon(_alerts()["ForebayForwardNodeGone"]["expr"])
    scene.soon(_alerts()["ForebayNodeSilent"]["expr"])
    for query in QUIET:
        scene.soon(query)
