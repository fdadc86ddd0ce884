"""The documentation as a site: it builds without a warning, no link leads nowhere, nothing comes from elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from links import page_of, troubles

ROOT = Path(__file__).resolve().parents[2]
MADE = shutil.ignore_patterns("_build", "reference", "files", "__pycache__")


def build(repository: Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does."""
    makefile = (ROOT / "Makefile").read_text()
    assert "--fail-on-warning --keep-going --nitpicky" in makefile
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--nitpicky", "-j", "2", "-b", "html"]
    folders = ["-d", str(repository / "trees"), str(repository / "docs"), str(repository / "site")]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, *folders], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the pages beside links to all else, with the site in it."""
    copy = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", copy / "docs", ignore=MADE)
    for path in ROOT.iterdir():
        if path.name not in ("docs", ".git", ".venv"):
            (copy / path.name).symlink_to(path)
    done = build(copy)
    assert (done.returncode, done.stderr) == (0, "")
    return copy


@pytest.fixture
def site(repository: Path) -> Path:
    return repository / "site"


def test_no_link_leads_nowhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert list(troubles(site)) == []


def test_every_page_of_the_folder_is_in_the_site(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages == {path.stem for path in site.glob("*.html")} - {"genindex", "search"}
    linked = {link.partition("#")[0] for link in page_of(site / "index.html").links}
    assert {f"{name}.html" for name in pages - {"index"}} <= linked


def test_a_file_of_the_repository_is_shown_where_a_page_links_to_it(site: Path) -> None:
    assert "../files/examples/serve.toml.html" in page_of(site / "reference" / "configuration.html").links
    assert "administrators" in (site / "files" / "examples" / "serve.toml.html").read_text()


def test_a_broken_link_fails_the_build(repository: Path) -> None:
    page = repository / "docs" / "model.md"
    text = page.read_text()
    page.write_text(text + "\n[one](no-such-page.md) [two](storage.md#no-such-place) ![three](images/none.png)\n")
    try:
        done = build(repository)
    finally:
        page.write_text(text)
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("no-such-page.md", "no-such-place", "images/none.png"))


@pytest.mark.parametrize(
    ("html", "wrong"),
    [
        ('<a href="away.html">', "a.html: away.html: there is no such file"),
        ('<a href="#away">', "a.html: #away: there is no #away"),
        ('<img src="away.png">', "a.html: away.png: there is no such file"),
        ('<script src="https://cdn.example/a.js">', "a.html: loads https://cdn.example/a.js, which is elsewhere"),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', "a.html: loads //cdn.example/a.css, which is elsewhere"),
        ('<p style="background: url(https://cdn.example/a.png)">', "a.html: loads https://cdn.example/a.png, "),
    ],
)
def test_the_check_of_links_finds_what_is_wrong(tmp_path: Path, html: str, wrong: str) -> None:
    (tmp_path / "a.html").write_text(html)
    (found,) = troubles(tmp_path)
    assert found.startswith(wrong)


def test_the_check_of_links_finds_what_styles_load(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://cdn.example/b.css'; p { background: url(none.png) }")
    assert list(troubles(tmp_path)) == [
        "a.css: loads https://cdn.example/b.css, which is elsewhere",
        "a.css: none.png: there is no such file",
    ]


def test_the_check_of_links_lets_be_what_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"><a href="b.html?x=1#there"><a href="https://elsewhere.example/">'
    )
    (tmp_path / "b.html").write_text('<img src="data:image/png;base64,AA=="><a name="there" href="a.html#here">')
    assert list(troubles(tmp_path)) == []
