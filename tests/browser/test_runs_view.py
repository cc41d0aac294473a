"""The list of runs, the plot of how fast stops land, and the page of one run say what the server knows."""

from __future__ import annotations

import pytest

from tests.browser.site import Tab

WHOLE = ("hello", "fail", "turns", "tools")
STOPPED = ("count", "story", "deploy", "stubborn")
WORDS = {"stopped": "cancelled", "failed": "failed", "out of turns": "max_turns", "completed": "completed"}


@pytest.fixture(scope="module")
def stocked(browser, site):
    """A server on which there was something of every kind."""
    page = browser.new_page()
    tab = Tab(page, site).open()
    for text in (*WHOLE, *STOPPED):
        tab.send(text)
        if text in STOPPED:
            tab.last.locator(".said").first.wait_for()
            page.wait_for_timeout(150)
            tab.stop()
        else:
            tab.last.locator(".end > *").first.wait_for(timeout=20_000)
            tab.until_ended()
    page.close()
    return site


def test_the_table_has_every_run_and_can_be_kept_to_one_outcome(tab, stocked):
    tab.open("#/runs")
    main = tab.page.get_by_role("main")
    main.get_by_role("link", name="hello").wait_for()
    assert main.locator(".runs tbody tr").count() == len(stocked.runs())
    for word, outcome in WORDS.items():
        main.get_by_role("link", name=word, exact=True).click()
        main.get_by_role("table", name=f"Runs that are {word}").wait_for()
        expected = [run["input"] for run in stocked.runs() if run["outcome"] == outcome]
        assert main.locator(".runs tbody th").all_inner_texts() == expected
    main.get_by_role("link", name="interrupted", exact=True).click()
    main.get_by_text("No run is interrupted.").wait_for()


def test_the_plot_says_in_words_and_numbers_what_it_draws(tab, stocked):
    tab.open("#/runs")
    plot = tab.page.get_by_role("region", name="How fast a stop lands")
    latencies = stocked.ask("stats/latency")["checkpoints"]
    assert {"STREAM_EVENT", "TOOL_CALL", "APPROVAL"} <= set(latencies)
    for checkpoint, values in latencies.items():
        said = plot.get_by_role("img", name=f"{checkpoint}: {len(values)} stop")
        said.wait_for()
        assert said.locator(".plot-bar").count() >= 1
    plot.get_by_text("The numbers").click()
    rows = plot.get_by_role("row").all_inner_texts()
    assert len(rows) == 1 + len(latencies)
    ticks = plot.locator(".plot-tick").all_inner_texts()
    assert ticks[0] == "0.1 ms"
    assert ticks[-1] == "10 s"  # the stubborn tool took its grace of a second


def test_the_page_of_a_stopped_run_has_its_report_its_timeline_and_its_calls(tab, stocked):
    tab.open("#/runs?outcome=cancelled")
    main = tab.page.get_by_role("main")
    main.get_by_role("link", name="stubborn").click()
    main.get_by_role("heading", name="stubborn").wait_for()
    report = main.get_by_label("Stop report").inner_text()
    assert "Stopped on request in the tool stubborn" in report
    assert "Stop on the page" in report
    timeline = main.get_by_role("region", name="Timeline")
    rows = timeline.get_by_role("listitem").all_inner_texts()
    assert [row.split("\n")[0] for row in rows] == ["Turn 1", "stubborn"]
    assert "abandoned" in rows[1]
    assert "it ended 1" in timeline.inner_text()
    bar, mark = (timeline.locator(which).bounding_box() for which in (".timeline-bar.is-abandoned", ".timeline-mark"))
    assert bar["x"] < mark["x"] < bar["x"] + bar["width"]
    main.get_by_role("link", name="Its conversation").click()
    tab.page.get_by_label("Stop report").last.wait_for()


def test_the_conversations_are_listed_and_can_be_gone_back_to(tab, stocked):
    tab.open()
    tab.send("a new subject")
    tab.until_said("You said")
    tab.until_ended()
    listed = tab.page.get_by_role("navigation", name="Conversations").get_by_role("link")
    tab.page.get_by_role("navigation", name="Conversations").get_by_text("a new subject").wait_for()
    listed.filter(has_text="hello").click()
    tab.until_said("I use stubborn")
    assert tab.page.get_by_role("article").count() == 8
    tab.page.get_by_role("link", name="New chat").click()
    tab.page.get_by_text("Ask something.").wait_for()
