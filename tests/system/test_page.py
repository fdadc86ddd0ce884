"""The page in a real browser, over a service with agents: everything is clicked, and nothing leaves the machine."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.agent.agent import Agent
from forebay.act.control.agent.settings import read_agent
from forebay.act.control.documents import DiskDocument, GrantDocument
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.volume import Volume, VolumeFailed
from support.browser import MISSING, Visitor, browser, visitor
from support.certificates import certificate
from support.control_processes import MB, SILENT, System, control_system, forebay
from support.ports import free_ports
from support.processes import wait_until
from support.users import ORDINARY

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a browser"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl"),
]


@dataclass
class Site:
    """A service with two nodes of two disks each, and who may log in."""

    system: System
    url: str
    browser: Any
    administrator: str
    user: str

    def request(self, size: int = 10 * MB, uid: int = ORDINARY, *, time: str = "1h", **more: Any) -> str:
        with self.system.client() as client:
            return str(client.request(size, time, uid=uid, gid=uid, **more)["id"])

    def ready(self, grant: str) -> GrantDocument:
        with self.system.client() as client:
            *_, found = client.follow(client.grant(grant))
        assert found["state"] == "ready", found
        return found

    def grant(self, grant: str) -> GrantDocument:
        with self.system.client() as client:
            return client.grant(grant)

    def login(self, made: Visitor, token: str, path: str = "/") -> None:
        made.page.goto(self.url + path)
        made.page.fill("#secret", token)
        made.page.get_by_role("button", name="Log in").click()
        made.page.locator("#totals").wait_for(state="visible")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with control_system(SILENT) as system, browser() as chromium:
        port = free_ports(1)[0]
        own, key = certificate(system.folder)
        system.configure(f"listen = '127.0.0.1:{port}'\ncertificate = '{own}'\nkey = '{key}'")
        for node in ("n1", "n2"):
            system.add_agent(node, "directory", "directory", more="fields = { tier = 'nvme' }")
        administrator = system.token("admin", "administrator").read_text().strip()
        user = system.token("ann", "user", uid=ORDINARY).read_text().strip()
        system.start()
        yield Site(system, f"https://127.0.0.1:{port}", chromium, administrator, user)


@pytest.fixture
def guest(site: Site) -> Iterator[Visitor]:
    """Somebody who has not logged in; at the end: no request went elsewhere, and the browser complained of nothing."""
    with visitor(site.browser) as made:
        yield made
        assert made.elsewhere(site.url) == []
        assert made.said == []


@pytest.fixture(scope="module")
def administrator(site: Site) -> Iterator[Visitor]:
    """One page that an administrator leaves open all the time."""
    with visitor(site.browser) as made:
        site.login(made, site.administrator)
        yield made


@pytest.fixture
def admin(site: Site, administrator: Visitor) -> Iterator[Visitor]:
    """An administrator at the first view; at the end as with a guest."""
    administrator.said.clear()
    administrator.asked.clear()
    administrator.page.goto(f"{site.url}/#/machine")
    administrator.page.locator(".node").first.wait_for()
    yield administrator
    assert administrator.elsewhere(site.url) == []
    assert administrator.said == []


def unmoved(made: Visitor) -> Any:
    """Tells later whether the page was loaded again."""
    made.page.evaluate("() => { window.marked = true; }")
    return lambda: made.page.evaluate("() => window.marked === true")


def test_who_has_no_token_stays_outside_and_is_told_the_way_in(site: Site, guest: Visitor) -> None:
    guest.page.goto(site.url)
    guest.page.get_by_text("forebay token login").wait_for()
    guest.page.fill("#secret", "nonsense")
    guest.page.get_by_role("button", name="Log in").click()
    guest.page.get_by_text("Not logged in: the token is unknown, or the link has expired.").wait_for()
    assert guest.page.locator("#totals").is_hidden() and guest.page.locator("nav a").count() == 0
    guest.shot("login")
    assert [words for words in guest.said if "401" not in words] == [] and len(guest.said) == 1  # of the wrong token
    guest.said.clear()


def test_a_link_of_the_command_logs_in_once(site: Site, guest: Visitor) -> None:
    done = forebay("token", "login", "--service", site.system.address)
    assert done.returncode == 0, done.stderr
    guest.page.goto(done.stdout.strip())
    guest.page.locator(".node").first.wait_for()
    assert "login=" not in guest.page.url
    with visitor(site.browser) as other:
        other.page.goto(done.stdout.strip())
        other.page.get_by_text("The link is no longer valid").wait_for()
        assert other.elsewhere(site.url) == []


def test_a_click_on_a_disk_leads_to_its_grants_and_their_stories(site: Site, admin: Visitor) -> None:
    grant = site.ready(site.request(job="4711"))
    volume = grant["volumes"][0]
    page = admin.page
    page.locator(f"button.disk[data-key='{volume['node']}/{volume['disk']}']").click()
    page.locator("aside").get_by_role("heading", name="Grants here").wait_for()
    page.locator("aside").get_by_role("link", name=grant["id"][:8]).click()
    story = page.locator("aside .story")
    story.get_by_text("requests 10.00 MB").wait_for()
    story.get_by_text("granted", exact=False).first.wait_for()
    page.locator("aside").get_by_text("4711", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.locator("aside").wait_for(state="hidden")


def test_an_administrator_drains_and_undrains_after_a_yes_and_not_after_a_no(site: Site, admin: Visitor) -> None:
    page, stayed = admin.page, unmoved(admin)
    page.get_by_role("button", name="n2", exact=True).click()
    page.get_by_role("button", name="Drain this node").click()
    page.get_by_role("button", name="Cancel").click()
    assert not drained(site, "n2")
    page.get_by_role("button", name="Drain this node").click()
    page.get_by_role("dialog").wait_for()
    page.go_back()
    page.get_by_role("dialog").wait_for(state="detached")
    page.go_forward()
    page.get_by_role("button", name="Drain this node").click()
    page.get_by_role("button", name="Drain", exact=True).click()
    page.locator(".node[data-node=n2].drained").get_by_text("drained").wait_for()
    assert drained(site, "n2")
    admin.shot("drained")
    page.get_by_role("button", name="Undrain this node").click()
    page.get_by_role("button", name="Undrain", exact=True).click()
    page.locator(".node[data-node=n2]:not(.drained)").wait_for()
    assert not drained(site, "n2") and stayed()


def drained(site: Site, node: str) -> bool:
    with site.system.client() as client:
        return next(bool(each["drained"]) for each in client.nodes() if each["name"] == node)


def test_a_request_appears_by_itself_and_is_released_from_the_page(site: Site, admin: Visitor) -> None:
    page, stayed = admin.page, unmoved(admin)
    page.get_by_role("link", name="Grants", exact=True).click()
    page.get_by_role("link", name="All", exact=True).click()
    page.get_by_role("status").get_by_text("grant").wait_for()
    grant = site.request(job="by-itself")
    row = page.locator(f"tr[data-grant='{grant}']")
    row.locator(".st-ready").wait_for()
    row.click()
    page.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_text("Its data is lost.").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    row.locator(".st-released").wait_for()
    page.locator("aside .story").get_by_text("released on the page", exact=False).first.wait_for()
    assert site.grant(grant)["state"] == "released" and stayed()


def test_decisions_come_in_words_and_refusals_with_their_reasons(site: Site, admin: Visitor) -> None:
    page = admin.page
    page.get_by_role("link", name="Decisions", exact=True).click()
    page.locator(".feed li").first.wait_for()
    grant = site.request(10**15)
    line = page.locator(".feed li", has=page.get_by_role("link", name=grant[:8]))
    line.get_by_text("refused:", exact=False).wait_for()
    line.get_by_text("1.00 PB for 1 h", exact=False).wait_for()
    line.get_by_text("forebay", exact=True).wait_for()
    because = site.grant(grant)["because"]
    page.get_by_role("link", name="Refused").click()
    page.locator(f"tr[data-grant='{grant}']").get_by_text(because[:30], exact=False).wait_for()
    admin.shot("refusals")


def test_after_the_service_was_away_the_page_is_right_again(site: Site, admin: Visitor) -> None:
    page, stayed = admin.page, unmoved(admin)
    page.get_by_role("link", name="Grants", exact=True).click()
    with page.expect_response(lambda answer: "/v1/page/grants" in answer.url) as listed:
        page.get_by_role("link", name="All", exact=True).click()
    listed.value.finished()  # not in the middle of it: the browser would complain of a cut answer
    site.system.service.kill()
    page.get_by_text("The service does not answer. The page shows the state of the last contact").wait_for()
    admin.shot("away")
    site.system.service.start()
    grant = site.request(job="meanwhile")
    page.locator(f"tr[data-grant='{grant}']").wait_for()
    page.locator(".link.live").wait_for()
    with site.system.client() as client:
        known = {each["id"]: each["state"] for each in client.grants()}
    wait_until(lambda: shown_states(page) == known, "the page shows other grants than there are")
    assert stayed()
    # While nobody answers, the browser itself says so of each try, in words that depend on where it was cut off.
    admin.said[:] = [words for words in admin.said if not words.startswith("Failed to load resource: net::ERR_")]


def shown_states(page: Any) -> dict[str, str]:
    look = "(rows) => rows.map((row) => [row.dataset.grant, row.querySelector('.st').textContent])"
    rows = page.locator("tr[data-grant]").evaluate_all(look)
    return {grant: words.split()[-1] for grant, words in rows}


def test_a_service_that_hangs_is_not_shown_as_live(site: Site, guest: Visitor) -> None:
    page = guest.page
    page.clock.install()
    site.login(guest, site.administrator)
    page.locator(".link.live").wait_for()
    page.clock.pause_at(page.evaluate("() => Date.now() + 1000"))  # from now on only this test lets time go by
    site.system.service.signal(signal.SIGSTOP)
    try:
        page.clock.run_for(10_000)
        page.get_by_text("The service does not answer. The page shows the state of the last contact").wait_for()
        page.get_by_text("no connection").wait_for()
    finally:
        site.system.service.signal(signal.SIGCONT)
    page.clock.resume()
    page.locator(".link.live").wait_for()


def test_a_node_that_falls_silent_stands_out_and_so_do_its_grants(site: Site, admin: Visitor) -> None:
    page, grant = admin.page, site.ready(site.request(job="4714"))
    node = grant["volumes"][0]["node"]
    site.system.agents[node].signal(signal.SIGSTOP)
    try:
        page.locator(f".node[data-node={node}].silent").get_by_text("silent").wait_for()
        page.locator("#totals").get_by_text("1 silent").wait_for()
        admin.shot("silent")
        page.goto(f"{site.url}/#/grants/list")
        row = page.locator(f"tr[data-grant='{grant['id']}']")
        row.get_by_text("ready, silent").wait_for()
        row.get_by_text(f"node {node} does not answer").wait_for()
        admin.shot("silent-list")
    finally:
        site.system.agents[node].signal(signal.SIGCONT)
    row.get_by_text("ready, silent").wait_for(state="detached")
    page.locator("#totals").get_by_text("all answer").wait_for()


@pytest.fixture
def bad_disks(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of node n2, d0 is suspended and d1 is not seen; afterwards they are as before."""
    root, away = site.system.folder / "n2-d1", site.system.folder / "away"
    real, process = Directory.make, site.system.agents["n2"]

    def resist(self: Directory, name: str, size: int, **how: Any) -> Volume:
        if self.root.name == "n2-d0":
            raise VolumeFailed(f"volume {name}: read-only file system")
        return real(self, name, size, **how)

    monkeypatch.setattr(Directory, "make", resist)
    process.end()
    agent = Agent(read_agent(site.system.folder / "n2.toml"), lambda _: None)
    agent.start()
    root.rename(away)
    try:
        wait_until(lambda: bool(said_of_disk(site, "n2", "d1")["unseen"]), "the disk is still seen")
        wait_until(lambda: suspended_after_request(site, "n2", "d0"), "the disk is not suspended")
        yield
    finally:
        away.rename(root)
        agent.stop()
        process.start()
        with site.system.client() as client:
            client.undrain("n2", "d0")
        wait_until(lambda: not said_of_disk(site, "n2", "d1")["unseen"], "the disk is not seen again")


def said_of_disk(site: Site, node: str, disk: str) -> DiskDocument:
    with site.system.client() as client:
        disks = next(each["disks"] for each in client.nodes() if each["name"] == node)
    return next(each for each in disks if each["name"] == disk)


def suspended_after_request(site: Site, node: str, disk: str) -> bool:
    site.ready(site.request(1 * MB))
    return bool(said_of_disk(site, node, disk)["suspended"])


@pytest.mark.usefixtures("bad_disks")
def test_a_suspended_disk_and_one_that_is_not_seen_stand_out_and_say_why(site: Site) -> None:
    for scheme, width in (("light", 1360), ("dark", 360)):
        show_bad_disks(site, scheme, width)


def show_bad_disks(site: Site, scheme: str, width: int) -> None:
    found = {
        "suspended": ("d0", "!", "suspended: volumes could not be made here", "read-only file system"),
        "unseen": ("d1", "?", "inaccessible: its agent cannot read it", "is not a folder"),
    }
    with visitor(site.browser, scheme=scheme, viewport={"width": width, "height": 844}) as made:
        site.login(made, site.administrator)
        page = made.page
        for state, (disk, mark, condition, because) in found.items():
            cell = page.locator(f"button.disk.{state}[data-key='n2/{disk}']")
            cell.get_by_text(mark, exact=True).wait_for()
            cell.click()  # which one that is clipped or covered would not let happen
            page.locator("aside").get_by_text(condition).wait_for()
            page.locator("aside").get_by_text(because).wait_for()
            assert page.evaluate(CLIPPED) == []
            made.shot(f"disk-{state}-{scheme}-{width}")
            page.get_by_role("button", name="Close details").click()
        page.goto(f"{site.url}/#/machine/table")
        for state in found:
            page.locator(f"tr .condition-word.{state}").wait_for()
        made.shot(f"disks-table-{scheme}-{width}")
        page.goto(f"{site.url}/#/decisions")
        for disk, _, _, because in found.values():
            page.locator(".feed li.worry", has_text=f"n2/{disk}").get_by_text(because).first.wait_for()
        made.shot(f"disks-decisions-{scheme}-{width}")
        assert made.elsewhere(site.url) == [] and made.said == []


def test_a_user_sees_own_grants_and_the_machine_and_changes_nothing_else(site: Site, guest: Visitor) -> None:
    own = site.request(job="mine")
    # It starts later, as an agent without root can't make volumes for others.
    other = site.request(uid=ORDINARY - 1, job="theirs", start=time.time() + 3600)
    site.login(guest, site.user, "/#/grants/list")
    page = guest.page
    page.locator(f"tr[data-grant='{own}']").wait_for()
    assert page.locator(f"tr[data-grant='{other}']").count() == 0
    assert page.get_by_role("link", name="History").count() == 0
    page.get_by_role("link", name="Machine", exact=True).click()
    page.get_by_role("button", name="n1", exact=True).click()
    page.locator("aside").get_by_role("heading", name="Node n1").wait_for()
    assert page.get_by_role("button", name="Drain this node").count() == 0
    page.goto(f"{site.url}/#/grants/list?grant={other}")
    page.get_by_text("only its owner or an administrator may see this grant").wait_for()
    guest.said.clear()  # the browser tells of the 403, too
    with site.system.client() as client:
        client.release(other)  # other tests look at the last grant of the timeline


def test_a_grant_that_is_not_there_any_more_is_told_in_words(site: Site, admin: Visitor) -> None:
    admin.page.goto(f"{site.url}/#/grants/list?grant={'0' * 32}")
    admin.page.get_by_text("This grant is no longer listed.").wait_for()
    admin.said.clear()  # the browser tells of the 404, too


def test_a_grant_that_vanishes_while_it_is_looked_at_is_told_in_words(site: Site, admin: Visitor) -> None:
    grant = site.request(1 * MB)
    admin.page.goto(f"{site.url}/#/machine?grant={grant}")
    admin.page.get_by_role("button", name="Release").wait_for()
    with site.system.client() as client:
        before = client.rules()["remember"]
        client.rules({"remember": 0})
        try:
            client.release(grant)
            client.request(1 * MB, 1, uid=ORDINARY, gid=ORDINARY)  # when it ends, the other is forgotten
            admin.page.get_by_text("This grant is no longer listed. It ended").wait_for()
        finally:
            client.rules({"remember": before})
    admin.said.clear()  # of the 404 of whoever asks once more


def test_who_loses_the_token_is_told_and_can_log_in_again(site: Site, guest: Visitor) -> None:
    token = site.system.token("short", "administrator").read_text().strip()
    site.login(guest, token)
    site.system.remove_token("short")
    wait_until(lambda: said_login(site, guest), "the login did not end")
    guest.page.get_by_text("Your token was removed").wait_for()
    guest.page.fill("#secret", site.administrator)
    guest.page.get_by_role("button", name="Log in").click()
    guest.page.locator(".node").first.wait_for()
    guest.page.get_by_role("button", name="Log out").click()
    guest.page.get_by_text("You have logged out.").wait_for()


def said_login(site: Site, made: Visitor) -> bool:
    """Something happens, so that the stream has something to tell."""
    site.request(1 * MB)
    return bool(made.page.locator("form.login").count())


def test_all_can_be_done_with_the_keyboard(admin: Visitor) -> None:
    page = admin.page
    page.locator("button.disk[data-key]").first.focus()
    page.keyboard.press("ArrowRight")
    key = page.evaluate("() => document.activeElement.dataset.key")
    assert key == "n1/d1"
    page.keyboard.press("Enter")
    page.locator("aside").get_by_role("heading", name="Disk n1/d1").wait_for()
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Close details"
    page.keyboard.press("Escape")
    page.locator("aside").wait_for(state="hidden")
    assert page.evaluate("() => document.activeElement.dataset.key") == key


def test_the_timeline_is_walked_by_keys_and_told_to_those_who_do_not_see_it(site: Site, admin: Visitor) -> None:
    grants = [site.ready(site.request(job=job))["id"] for job in ("4801", "4802")]
    page = admin.page
    page.goto(f"{site.url}/#/grants/timeline")
    page.locator("canvas[aria-label*=grant]").wait_for()
    page.get_by_role("application", name="Timeline of grants").focus()
    heard = page.locator(".visually-hidden[role=status]")
    page.keyboard.press("End")
    last = heard.inner_text()
    assert "ready" in last and "job 480" in last
    page.keyboard.press("ArrowLeft")
    assert heard.inner_text() != last
    page.keyboard.press("ArrowRight")
    assert heard.inner_text() == last
    page.keyboard.press("Enter")
    page.locator("aside").wait_for()
    assert any(grant in page.url for grant in grants)
    page.keyboard.press("Escape")
    page.locator("aside").wait_for(state="hidden")
    page.keyboard.press("ArrowRight")
    assert heard.inner_text() == last
    page.get_by_label("Span of time").select_option("10 min")
    page.get_by_role("application", name="Timeline of grants").focus()
    page.keyboard.press("End")
    assert "job 480" in heard.inner_text()
    admin.shot("timeline-10-min")


VIEWS = {
    "machine": ".node", "grants/timeline": "canvas[aria-label*=grant]", "grants/list": "tr[data-grant]",
    "decisions": ".feed li", "schedule": ".note", "history": ".note", "forwarding": ".note",
}  # fmt: skip
"""What each view has once it is there."""
CLIPPED = """() => [...document.querySelectorAll("html, body, header *, #totals *, main, aside, aside *, th")]
  .filter((one) => one.scrollWidth > one.clientWidth && getComputedStyle(one).display !== "inline"
    && !one.matches("select, input, .visually-hidden"))
  .map((one) => `${one.tagName} ${one.className} ${one.textContent.slice(0, 40)}`)"""
"""Whatever is wider than its place, where nothing may scroll sideways or be cut."""


@pytest.mark.parametrize(("name", "scheme", "width"), [("dark", "dark", 1360), ("narrow", "light", 360)])
def test_it_can_be_read_in_the_dark_and_on_a_narrow_screen(site: Site, name: str, scheme: str, width: int) -> None:
    grant = site.ready(site.request(job="4712", time="2d"))  # its end is shown with the date, which takes more room
    beside = {f"machine?node={grant['volumes'][0]['node']}": "aside tr a", f"machine?grant={grant['id']}": "aside tr a"}
    with visitor(site.browser, scheme=scheme, viewport={"width": width, "height": 844}) as made:
        site.login(made, site.administrator)
        for view, there in (VIEWS | beside).items():
            made.page.goto(f"{site.url}/#/{view}")
            made.page.locator(there).first.wait_for()
            made.shot(f"{name}-{view.partition('=')[0].replace('/', '-').replace('?', '-')}")
            for wide in (width, 412) if width < 600 else (width,):
                made.page.set_viewport_size({"width": wide, "height": 844})
                assert made.page.evaluate(CLIPPED) == [], (view, wide)
        assert made.elsewhere(site.url) == []


def test_why_a_job_waits_can_be_read_on_a_narrow_screen(site: Site) -> None:
    now, why = time.time(), "It waits for 2 nodes (1 free) and for 50.00 GB (40.00 GB free)."
    job = {"job": "4711_[1-100]", "user": "ann", "partition": "main", "nodes": 2, "space": 50 * 10**9}
    ends = {"state": "RUNNING", "start": now - 60, "end_by": now + 600, "expected_end": now + 600}
    waits = {"walltime": 600, "waited": 60, "holds": False, "start": now + 600, "because": "nodes-and-space",
             "sentence": why, "overdue": False, "raised": 12, "kept_until": now + 60}  # fmt: skip
    machine = {"unit": "nodes", "nodes": 4, "free_nodes": 1, "pool": "nvme", "space": 10**11, "free_space": 4 * 10**10}
    counts = {"running": 1, "planned": 1, "others": 1, "deep": 0}
    plan = {"at": now, "mode": "steer", "policy": "sjf-bb", "machine": machine, "running": [job | ends], "trouble": "",
            "planned": [job | waits], "others": [job | waits | {"start": None}], "counts": counts}  # fmt: skip
    with visitor(site.browser, viewport={"width": 360, "height": 844}) as made:
        site.login(made, site.administrator)
        made.page.route("**/v1/page/looks/schedule", lambda route: route.fulfill(json=plan))
        made.page.goto(f"{site.url}/#/schedule")
        reason = made.page.locator(".plan-why").first
        reason.wait_for()
        made.shot("narrow-plan")
        box = reason.bounding_box()
        assert why in reason.inner_text()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
        assert made.page.evaluate(CLIPPED) == []
        made.page.set_viewport_size({"width": 1360, "height": 860})
        made.page.get_by_role("columnheader", name="why").first.wait_for()


def test_without_a_history_a_forwarding_layer_or_a_planner_the_page_says_how_to_have_them(admin: Visitor) -> None:
    admin.page.get_by_role("link", name="Schedule", exact=True).click()
    admin.page.get_by_text("No planner is configured.").wait_for()
    admin.page.get_by_role("link", name="History", exact=True).click()
    admin.page.get_by_text("No history is configured.").wait_for()
    admin.page.get_by_role("link", name="Forwarding", exact=True).click()
    admin.page.get_by_text("No forwarding layer is configured.").wait_for()


def test_what_browsers_get_forbids_everything_from_elsewhere(site: Site, guest: Visitor) -> None:
    answer = guest.page.goto(site.url)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    blocked = guest.page.evaluate("() => fetch('https://127.0.0.1:1/').then(() => 'reached', () => 'blocked')")
    assert blocked == "blocked"
    guest.said.clear()
    guest.asked[:] = [url for url in guest.asked if not url.startswith("https://127.0.0.1:1/")]


def test_the_files_of_the_page_name_no_other_host() -> None:
    import forebay.show.web

    for path in Path(forebay.show.web.FILES).iterdir():
        text = path.read_text()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text, path
