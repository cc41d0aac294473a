"""A browser, a server for the tests of one file, and a tab for each test. Run by `make test-browser`."""

from __future__ import annotations

import os

import pytest

from tests.browser.site import Site, Tab
from tests.chromium import browser, page

__all__ = ["browser", "page", "site", "tab"]


def pytest_collection_modifyitems(items):
    """A browser is not part of `make test`."""
    if os.environ.get("LOOPCTL_BROWSER"):
        return
    for item in items:
        if "/tests/browser/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason="run by make test-browser"))


@pytest.fixture(scope="module")
def site(browser):
    """One server for a file of tests; the browser is asked for so that nothing is started without one."""
    site = Site()
    yield site
    site.close()


@pytest.fixture
def tab(page, site):
    tab = Tab(page, site)
    yield tab
    tab.check()
