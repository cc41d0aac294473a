"""Tabs close, pages load again, networks and servers go away: what becomes of the run, and what the page then says."""

from __future__ import annotations

import re
import signal

import pytest

from tests.browser.site import Site, Tab, until


@pytest.fixture(scope="module")
def lasting(browser):
    """A server on which a run goes on without a reader."""
    site = Site("--on-disconnect", "detach")
    yield site
    site.close()


@pytest.fixture
def mortal(browser):
    """A server of the test's own, which it may kill."""
    site = Site()
    yield site
    site.close()


def numbers(tab):
    return [int(number) for number in re.findall(r"fox number (\d+)", tab.last.inner_text())]


def second_tab(tab):
    other = Tab(tab.page.context.new_page(), tab.site)
    other.page.goto(tab.page.url)
    return other


def test_closing_the_tab_stops_the_run_and_the_record_says_disconnect(tab, site):
    other = second_tab(tab.open())
    other.send("story")
    other.until_said("fox number")
    other.page.close()
    run = site.until_ended()
    assert (run["outcome"], run["record"]["stop"]["reason"]["origin"]) == ("cancelled", "disconnect")


def test_closing_the_tab_lets_the_run_go_on_where_it_may(page, lasting):
    other = second_tab(Tab(page, lasting).open())
    other.send("tools")
    other.card.get_by_text("counted to").wait_for()
    other.page.close()
    assert lasting.until_ended()["outcome"] == "completed"


def test_a_reload_joins_the_run_again_and_nothing_is_lost_or_doubled(page, lasting):
    tab = Tab(page, lasting).open()
    tab.send("story")
    tab.until_said("fox number 10")
    page.reload()
    tab.until_said("fox number 20")
    assert page.get_by_role("article").count() == 1
    shown = numbers(tab)
    assert shown == list(range(len(shown)))
    tab.stop()
    assert "Stopped on request" in tab.report.inner_text()
    tab.send("hello again")
    tab.until_said("You said: hello again")
    tab.until_ended()
    tab.check()


def test_a_reload_keeps_the_conversation_with_what_was_stopped(tab):
    tab.open().send("tools")
    tab.until_said("All is done.")
    tab.until_ended()
    tab.send("count")
    tab.card.get_by_text("counted to 4").wait_for()
    tab.stop()
    before = tab.page.locator(".log").inner_text()
    tab.page.reload()
    tab.report.wait_for()
    # What a tool said on its way is not part of the record.
    assert tab.page.locator(".log").inner_text() == re.sub(r"It had said: .*\n+", "", before)


def test_a_reload_under_cancel_shows_that_the_run_was_stopped_by_it(tab):
    tab.open().send("story")
    tab.until_said("fox number 10")
    tab.page.reload()
    tab.report.wait_for()
    assert "Stopped because nobody reads it any more" in tab.report.inner_text()
    assert "fox number 9" in tab.last.inner_text()


def test_two_tabs_show_one_run_and_each_can_stop_it(tab):
    tab.open().send("story")
    tab.until_said("fox number")
    other = second_tab(tab)
    other.until_said("fox number")
    other.stop()
    tab.until_ended()
    for each in (tab, other):
        assert "Stopped on request in the middle of the reply" in each.report.inner_text()
    assert numbers(tab) == numbers(other)
    other.check()


def test_a_message_to_a_busy_conversation_comes_back_and_its_run_can_be_shown(tab):
    tab.open().send("hello")
    tab.until_said("You said: hello")
    tab.until_ended()
    other = second_tab(tab)
    other.until_said("You said: hello")
    tab.send("story")
    tab.until_said("fox number")
    other.send("and another thing")
    other.page.get_by_text("This conversation is busy").wait_for()
    assert other.box.input_value() == "and another thing"
    other.page.get_by_role("button", name="Show it").click()
    other.until_said("fox number")
    other.stop()
    tab.until_ended()
    other.errors.clear()  # a browser tells of each 409
    other.check()


def test_a_network_that_was_lost_is_joined_again(page, lasting):
    tab = Tab(page, lasting).open()
    tab.send("story")
    tab.until_said("fox number 10")
    page.context.set_offline(True)
    page.get_by_text("Connection lost. Trying again…").wait_for()
    page.context.set_offline(False)
    tab.until_said("fox number 60")
    shown = numbers(tab)
    assert shown == list(range(len(shown)))
    tab.stop()


def test_a_server_that_was_restarted_says_that_it_does_not_know_the_run(page, mortal):
    tab = Tab(page, mortal).open()
    tab.send("count")
    tab.card.get_by_text("counted to 4").wait_for()
    mortal.restart(signal.SIGKILL)
    tab.until_said("The server no longer knows this run")
    assert "effect is unknown" in tab.last.inner_text()
    assert tab.card.get_attribute("aria-label") == "Tool count: unknown"
    tab.send("hello again")
    tab.until_said("You said: hello again")
    tab.until_ended()


def test_a_server_that_was_killed_and_has_a_store_shows_the_run_as_interrupted_and_goes_on(page, tmp_path):
    site = Site("--store", str(tmp_path / "runs.db"))
    tab = Tab(page, site).open()
    tab.send("hello")
    tab.until_said("You said: hello")
    tab.until_ended()
    tab.send("count")
    tab.card.get_by_text("counted to 4").wait_for()
    site.restart(signal.SIGKILL)
    for _ in ("as it was seen", "as it is loaded again"):
        tab.until_said("The process that ran this ended before the run did.")
        assert "Effect unknown: its process ended while it ran." in tab.card.inner_text()
        assert page.get_by_role("article").count() == 2
        page.reload()
    tab.send("hello again")
    tab.until_said("You said: hello again")
    tab.until_ended()
    assert [run["outcome"] for run in site.runs()] == ["completed", "interrupted", "completed"]
    page.goto(site.url + "#/runs?outcome=interrupted")
    page.get_by_role("main").get_by_role("link", name="count").click()
    page.get_by_label("Tool count: interrupted").wait_for()
    site.close()


def test_a_server_that_is_stopped_says_shutdown_and_a_message_to_it_comes_back(page, mortal):
    tab = Tab(page, mortal).open()
    tab.send("story")
    tab.until_said("fox number")
    mortal.close()
    tab.report.wait_for()
    assert "Stopped by a shutdown" in tab.report.inner_text()
    tab.send("are you there?")
    page.get_by_text("The server does not answer").wait_for()
    assert tab.box.input_value() == "are you there?"
    mortal._command += ["--port", mortal.port]
    mortal.start()
    tab.box.press("Enter")
    tab.until_said("You said: are you there?")
    tab.until_ended()


def test_a_server_that_wants_a_token_is_given_it_once(page):
    site = Site("--token", "open-sesame")
    try:
        tab = Tab(page, site).open()
        dialog = page.get_by_role("dialog", name="This server wants its token")
        for given in ("wrong", "open-sesame"):
            dialog.get_by_label("Token").fill(given)
            dialog.get_by_role("button", name="Go on").click()
            if given == "wrong":
                dialog.get_by_text("That was not it.").wait_for()
        dialog.wait_for(state="hidden")
        tab.send("hello")
        tab.until_said("You said: hello")
        tab.until_ended()
        page.reload()
        tab.until_said("You said: hello")
        assert not dialog.is_visible()
        assert until(lambda: page.get_by_label("Conversations").get_by_role("link").count()) == 1
    finally:
        site.close()


def test_who_scrolls_back_stays_there_and_who_reads_the_end_follows_it(tab):
    tab.page.set_viewport_size({"width": 360, "height": 640})
    tab.open().send("story")
    tab.until_said("fox number 40")
    scroll = tab.page.locator(".scroll")
    gap = "scroll => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight"
    assert scroll.evaluate(gap) < 60
    scroll.hover()
    tab.page.mouse.wheel(0, -500)
    tab.page.get_by_role("button", name="Latest").wait_for()
    before = scroll.evaluate("scroll => scroll.scrollTop")
    tab.until_said("fox number 80")
    assert scroll.evaluate("scroll => scroll.scrollTop") == before
    tab.page.get_by_role("button", name="Latest").click()
    tab.stop()
    assert scroll.evaluate(gap) < 60
    assert tab.report.is_visible()
