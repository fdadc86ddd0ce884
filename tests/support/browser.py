"""Debian's Chromium without a screen, driven by Playwright, that reaches nothing but this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

CHROMIUM = shutil.which("chromium")
MISSING = (
    "Chromium is not installed"
    if CHROMIUM is None
    else "Playwright is not installed"
    if importlib.util.find_spec("playwright") is None
    else ""
)
"""Why there is no browser; "" if there is one."""
WIDE = {"width": 1360, "height": 860}
PATIENCE = 120_000
"""Milliseconds for what must come."""
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # whatever has a name can't be reached
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-gpu",
)


@dataclass
class Visitor:
    """One who looks at pages; `asked` are the addresses of all requests, `said` what the browser complains of."""

    context: BrowserContext
    page: Page
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def shot(self, name: str) -> Path:
        """A picture of what is seen, into $FOREBAY_SCREENSHOTS or a folder among the temporary ones."""
        folder = Path(
            os.environ.get("FOREBAY_SCREENSHOTS") or Path(tempfile.gettempdir()) / f"forebay-screenshots-{os.getuid()}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png")
        return folder / f"{name}.png"

    def elsewhere(self, *own: str) -> list[str]:
        """Addresses of requests that did not go to one of these."""
        return [url for url in self.asked if not url.startswith((*own, "data:", "blob:"))]


@contextmanager
def browser() -> Iterator[Any]:
    """A browser for several visitors."""
    from playwright.sync_api import sync_playwright

    own = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=[*_ARGUMENTS, *own], chromium_sandbox=False)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def visitor(browser: Any, *, viewport: dict[str, int] | None = None, scheme: str = "light") -> Iterator[Visitor]:
    """With a memory of its own for cookies; the service's certificate is taken as it is."""
    context = browser.new_context(viewport=viewport or WIDE, color_scheme=scheme, ignore_https_errors=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    made = Visitor(context, page)
    context.on("request", lambda request: made.asked.append(request.url))
    page.on("console", lambda message: made.said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: made.said.append(str(error)))
    try:
        yield made
    finally:
        context.close()
