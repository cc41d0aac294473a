"""`loopctl serve` as a person starts it, with the real model of this machine."""

from __future__ import annotations

import re
import sys

import pytest

from tests.browser.site import Site, Tab, until

SERVE = (sys.executable, "-m", "loopctl.cli", "serve", "--model", "local", "--port", "0")
LOADING = 50_000
"""Milliseconds in which a model is there that is read from the disk first."""


@pytest.fixture(scope="module")
def local(browser, tmp_path_factory):
    site = Site(command=(*SERVE, "--store", str(tmp_path_factory.mktemp("store") / "runs.db")))
    yield site
    site.close()


@pytest.mark.timeout(120)
def test_a_real_model_is_talked_to_stopped_in_mid_sentence_and_talked_to_again(page, local):
    tab = Tab(page, local).open()
    page.get_by_role("button", name="Tell me a very long story about a fox.").click()
    tab.last.locator(".said").wait_for(timeout=LOADING)
    until(lambda: len(tab.last.locator(".said").inner_text().split()) > 8)
    tab.stop()
    run = local.runs()[0]["record"]
    assert (run["outcome"], run["stop"]["checkpoint"]) == ("cancelled", "STREAM_EVENT")
    assert len(run["partial_text"].split()) > 8
    plain = re.sub(r"[\W_]+", "", run["partial_text"])
    assert plain in re.sub(r"[\W_]+", "", tab.last.locator(".said").inner_text())
    assert "Stopped on request in the middle of the reply" in tab.report.inner_text()
    tab.send("Say only the word hello.")
    tab.last.get_by_role("link", name="Completed").wait_for(timeout=LOADING)
    assert local.runs()[0]["record"]["output"]
    page.reload()
    tab.last.get_by_role("link", name="Completed").wait_for()
    assert page.get_by_role("article").count() == 2
    tab.check()
