"""Debian's Chromium, headless, driven by Playwright: `scripts/chromium.sh` brings both, for the tests of pages only.

Rules: a browser lives as long as a module's tests, each of which has a page with cookies of its own; while it lives,
Playwright's event loop is the one that runs in this thread, so tests of pages run no other. Nothing is looked up or
loaded from anywhere but this machine. What a page's code throws fails the test.
"""

from __future__ import annotations

import shutil

import pytest

__all__ = ["browser", "page"]

ARGUMENTS = (
    "--no-sandbox",  # there is none for root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
PATIENCE = 20_000
"""Milliseconds that a page may take for anything."""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: scripts/chromium.sh")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: scripts/chromium.sh")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    yield page
    errors = page.page_errors()
    context.close()
    assert errors == []
