"""A headless browser, shared by all page tests; without one they are skipped, saying why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# The shell is the same browser without windows of its own, and needs a quarter of the time for a page.
PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell", "chromium")
# The full browser starts two further processes for each page, for its address bar and for a page that may come next.
UNUSED = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess")
# A browser heeds the last list of features alone: these are of the one that Playwright gives.
UNWANTED = (
    *(
        "AimEnabled",
        "AvoidUnnecessaryBeforeUnloadCheckSync",
        "DestroyProfileOnBrowserClose",
        "HttpsFirstBalancedModeAutoEnable",
    ),
    *("HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding"),
    *("PreconnectToSearch", "ThirdPartyStoragePartitioning"),
)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", f"--disable-features={','.join((*UNUSED, *UNWANTED))}"),
]
# What the page's policy forbids is reported here, whether or not the browser also says so on its console.
WATCH = "window.refused = []; addEventListener('securitypolicyviolation', e => refused.push(e.violatedDirective))"


@dataclass
class Visit:
    """An open page and everything it did that it should not."""

    page: Any
    console: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    blocked: list[tuple[str, str]] = field(default_factory=list)

    def dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    @property
    def refused(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.refused || []")
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.eval_on_selector_all(selector, "nodes => nodes.map(node => node.textContent)")
        return found

    def shown(self, selector: str = ".card .case") -> list[str]:
        cards = "nodes => nodes.filter(n => !n.closest('[hidden]')).map(n => n.textContent)"
        found: list[str] = self.page.eval_on_selector_all(selector, cards)
        return found

    def follow(self, selector: str) -> None:
        """Click a link within the page and wait until the page has heard of it, which it does a moment after the click."""
        self.page.evaluate("window.followed = false; addEventListener('hashchange', () => followed = true, {once: true})")
        self.page.locator(selector).first.click()
        self.page.wait_for_function("() => window.followed")  # the page's own listener was there first


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"none of these is on the path: {', '.join(PROGRAMS)}")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield made
        made.close()


class Opener:
    """Opens files in fresh contexts and closes them all."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.contexts: list[Any] = []

    def __call__(self, path: Path, width: int = 1280, **options: Any) -> Visit:
        context = self.browser.new_context(viewport={"width": width, "height": 1000}, **options)
        self.contexts.append(context)
        context.add_init_script(WATCH)
        visit = Visit(context.new_page())
        visit.page.on("console", lambda message: visit.console.append(message.text))
        visit.page.on("pageerror", lambda error: visit.console.append(str(error)))
        visit.page.on("dialog", visit.dismiss)
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("requestfailed", lambda request: visit.blocked.append((request.url, request.failure)))
        visit.page.goto(path.resolve().as_uri())
        return visit


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    for context in opener.contexts:
        context.close()
