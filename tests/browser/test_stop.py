"""Stop, wherever it meets the run: it ends at once, says what had happened, and the next message just works."""

from __future__ import annotations

import re


def expect_next_message_works(tab):
    tab.send("hello again")
    tab.until_said("You said: hello again")
    tab.until_ended()


def test_stop_in_mid_sentence_keeps_the_text_and_says_where_and_how_fast(tab, site):
    tab.open().send("story")
    tab.until_said("fox number")
    tab.stop()
    said = tab.last.locator(".said")
    run = site.runs()[0]
    assert run["outcome"] == "cancelled"
    assert run["record"]["stop"]["reason"]["origin"] == "user"
    assert "stopped" in said.inner_text()
    shown = re.findall(r"fox number (\d+)", said.inner_text())
    assert shown == re.findall(r"fox number \*\*(\d+)", run["record"]["partial_text"])
    report = tab.report.inner_text()
    assert "Stopped on request in the middle of the reply" in report
    assert re.search(r"after (\d+|less than 1) ms", report)
    assert "STREAM_EVENT" in report
    assert "Not part of the conversation" in report
    expect_next_message_works(tab)


def test_stop_in_a_tool_says_that_its_effect_is_unknown(tab):
    tab.open().send("count")
    tab.card.get_by_text("counted to 4").wait_for()
    assert int(tab.card.get_by_role("progressbar").get_attribute("aria-valuenow")) >= 1
    tab.stop()
    assert tab.card.get_attribute("aria-label") == "Tool count: interrupted"
    assert "Effect unknown" in tab.card.inner_text()
    assert "It had said: counted to" in tab.card.inner_text()
    assert "Stopped on request in the tool count" in tab.report.inner_text()
    assert "count interrupted (effect unknown)" in tab.report.inner_text()
    expect_next_message_works(tab)


def test_stop_in_an_approval_withdraws_the_question_and_nothing_runs(tab):
    tab.open().send("deploy")
    allow = tab.page.get_by_role("button", name="Allow deploy")
    allow.wait_for()
    tab.stop()
    assert not allow.is_visible()
    assert tab.card.get_attribute("aria-label") == "Tool deploy: not started"
    assert "Stopped on request while waiting for approval" in tab.report.inner_text()
    expect_next_message_works(tab)


def test_a_stubborn_tool_is_abandoned_and_the_report_names_the_line_where_it_hangs(tab):
    tab.open().send("stubborn")
    tab.card.get_by_text("running").wait_for()
    tab.stop()
    assert "abandoned" in tab.card.inner_text()
    assert "may still have an effect" in tab.card.inner_text()
    assert re.search(r"Still running\s+stubborn at .*served\.py:\d+ \(task, \d\.\d s\)", tab.report.inner_text())
    expect_next_message_works(tab)


def test_what_does_not_end_is_given_up_by_stop_now(tab, site):
    tab.open().send("pay")
    tab.card.get_by_text("waiting for the bank").wait_for()
    tab.stop_button.click()
    assert tab.stop_button.get_attribute("aria-disabled") == "true"
    tab.stop_button.get_by_text("Stop now").wait_for()
    assert "pay does not end" in tab.page.locator(".status").inner_text()
    tab.stop()
    record = site.runs()[0]["record"]
    assert [reason["message"] for reason in record["stop"]["also"]] == ["Stop now on the page"]
    assert "Stopped on request in the tool pay" in tab.report.inner_text()
    expect_next_message_works(tab)


def test_escape_stops_from_anywhere(tab):
    tab.open().send("story")
    tab.until_said("fox number")
    tab.page.locator("body").press("Escape")
    tab.until_ended()
    assert "Stopped on request" in tab.report.inner_text()
    assert tab.box.evaluate("box => document.activeElement === box")
    expect_next_message_works(tab)


def test_a_stop_in_the_same_instant_as_the_message_is_not_lost(tab, site):
    tab.open()
    tab.box.fill("story")
    tab.page.evaluate(
        """() => {
            document.querySelector("form.composer").requestSubmit();
            document.querySelector(".stop").click();
        }"""
    )
    tab.until_ended()
    assert site.until_ended()["outcome"] == "cancelled"
    assert "Stopped on request" in tab.report.inner_text()
    expect_next_message_works(tab)


def test_a_server_that_is_blocked_can_be_left(tab, site):
    tab.open().send("block")
    tab.card.get_by_text("running").wait_for()
    tab.stop_button.click()
    tab.stop_button.get_by_text("Stop now").click()
    tab.stop_button.get_by_text("Leave it").wait_for()
    tab.stop_button.click()
    tab.until_ended()
    assert "may still go on there" in tab.last.inner_text()
    run = site.until_ended()
    tab.page.get_by_role("link", name="Details of this run").click()
    tab.page.get_by_text("The record").wait_for()
    assert run["record"]["tool_calls"][0]["name"] == "block"


def test_enter_while_it_answers_sends_nothing_and_keeps_the_draft(tab, site):
    tab.open().send("story")
    tab.until_said("fox number")
    before = len(site.runs())
    tab.send("my next thought")
    assert tab.box.input_value() == "my next thought"
    assert len(site.runs()) == before
    tab.stop()
    assert tab.box.input_value() == "my next thought"


def test_an_approval_that_is_given_runs_the_tool_and_a_denied_one_does_not(tab, site):
    tab.open().send("deploy")
    question = tab.card.get_by_label("Arguments of deploy")
    question.wait_for()
    assert '"to": "production"' in question.inner_text()
    tab.page.get_by_role("button", name="Allow deploy").click()
    tab.until_ended()
    assert tab.card.get_attribute("aria-label") == "Tool deploy: completed"
    tab.send("deploy once more")
    tab.page.get_by_role("button", name="Deny deploy").click()
    tab.until_ended()
    assert tab.card.get_attribute("aria-label") == "Tool deploy: denied"
    assert site.runs()[0]["record"]["tool_calls"][0]["status"] == "denied"
