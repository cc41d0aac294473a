"""The page without a mouse, without eyes, in the dark, and on a phone."""

from __future__ import annotations

import re
import time

import pytest

from tests.browser.site import Tab

LOOKS = [
    {"color_scheme": scheme, "viewport": {"width": width, "height": 760}}
    for scheme in ("light", "dark")
    for width in (1280, 360)
]
NAMELESS = """() => [...document.querySelectorAll("a, button, input, textarea, summary, dialog, [role], main, nav")]
    .filter((element) => element.checkVisibility())
    .filter((element) => !(element.ariaLabel || element.labels?.length || element.textContent.trim()
        || element.getAttribute("aria-labelledby") || element.id === "main"))
    .map((element) => element.outerHTML)"""
CONTRASTS = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const over = ([r, g, b, a = 1], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
    const light = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (element) => {
        const chain = [];
        for (let each = element; each; each = each.parentElement) chain.unshift(getComputedStyle(each).backgroundColor);
        return chain.map(parse).reduce((under, top) => over(top, under), [255, 255, 255]);
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest(".unseen")) continue;
        const under = ground(element);
        const ink = over(parse(getComputedStyle(element).color), under);
        const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) found.push([ratio.toFixed(2), walker.currentNode.data.trim().slice(0, 40)]);
    }
    return found;
}"""
WIDER = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(params=LOOKS, ids=lambda look: f"{look['color_scheme']}-{look['viewport']['width']}")
def look(request, browser, site):
    context = browser.new_context(reduced_motion="reduce", **request.param)
    context.set_default_timeout(20_000)
    tab = Tab(context.new_page(), site)
    yield tab
    context.close()


def expect_fit(tab):
    assert tab.page.evaluate(NAMELESS) == []
    assert tab.page.evaluate(CONTRASTS) == []
    assert tab.page.evaluate(WIDER) <= 0


def test_every_state_has_names_contrast_and_room(look):
    tab = look.open()
    expect_fit(tab)
    tab.send("pay")
    tab.card.get_by_text("waiting for the bank").wait_for()
    expect_fit(tab)
    tab.stop_button.click()
    expect_fit(tab)
    tab.stop_button.get_by_text("Stop now").wait_for()
    expect_fit(tab)
    tab.stop()
    for text in ("hostile", "fail", "turns", "again", "think", "markdown"):
        tab.send(text)
        tab.last.locator(".end > *").first.wait_for()
        tab.until_ended()
        expect_fit(tab)
    tab.send("deploy")
    tab.page.get_by_role("button", name="Deny deploy").wait_for()
    expect_fit(tab)
    tab.stop()
    tab.card.locator("summary").click()
    expect_fit(tab)
    for where in ("#/runs", "#/runs/none-such", f"#/runs/{tab.site.runs()[0]['id']}"):
        tab.page.goto(tab.site.url + where)
        tab.page.get_by_role("main").get_by_role("heading").first.wait_for()
        tab.page.wait_for_load_state("networkidle")
        expect_fit(tab)


def tab_to(page, locator, most=40):
    for _ in range(most):
        if locator.evaluate("element => document.activeElement === element"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not lead to {locator}")


def test_a_conversation_by_keyboard_alone(tab):
    tab.open()
    keys = tab.page.keyboard
    keys.type("deploy")
    keys.press("Enter")
    allow = tab.page.get_by_role("button", name="Allow deploy")
    allow.wait_for()
    for key in ("Enter", "Space"):
        keys.press(key)  # the focus is in the box: neither says yes
    assert allow.is_visible()
    keys.press("Shift+Tab")
    tab_to(tab.page, allow)
    assert allow.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
    keys.press("Enter")
    tab.until_ended()
    assert tab.card.get_attribute("aria-label") == "Tool deploy: completed"
    assert tab.box.evaluate("box => document.activeElement === box")
    keys.type("story")
    keys.press("Enter")
    tab.until_said("fox number")
    tab_to(tab.page, tab.stop_button)
    keys.press("Enter")
    tab.until_ended()
    assert "Stopped on request" in tab.report.inner_text()
    assert tab.box.evaluate("box => document.activeElement === box")
    tab_to(tab.page, tab.page.get_by_role("link", name="Details of this run").last)
    keys.press("Enter")
    tab.page.get_by_role("region", name="Timeline").wait_for()


def test_the_first_link_leads_past_the_lists(tab):
    tab.open()
    assert tab.page.locator("a, button, textarea").first.inner_text() == "To the content"
    tab.page.locator(".skip").focus()
    assert tab.page.locator(".skip").bounding_box()["y"] >= 0
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "main"


def test_a_screen_reader_is_told_in_sentences_and_not_in_a_flood(tab):
    tab.open()
    tab.page.evaluate(
        """() => {
            window.told = [];
            for (const id of ["polite", "urgent"]) new MutationObserver((changes) => {
                for (const change of changes) for (const node of change.addedNodes) told.push([id, node.textContent]);
            }).observe(document.getElementById(id), { childList: true });
        }"""
    )
    began = time.monotonic()
    tab.send("story")
    tab.until_said("fox number 80")
    tab.stop()
    seconds = time.monotonic() - began
    told = tab.page.evaluate("told")
    texts = [text for which, text in told if which == "polite"]
    assert 1 <= len(texts) <= seconds / 2 + 2
    assert all(re.search(r"[.!?:\n]$", text) for text in texts[:-1])
    alerts = [text for which, text in told if which == "urgent"]
    assert any(text.startswith("Stopped on request in the middle of the reply") for text in alerts)
    assert tab.page.locator(".log").get_attribute("aria-live") is None
    tab.send("deploy")
    tab.page.get_by_role("button", name="Allow deploy").wait_for()
    asked = "Approval needed: may deploy run?"
    tab.page.wait_for_function(
        "text => told.some(([which, said]) => which === 'urgent' && said.startsWith(text))", arg=asked
    )
    tab.stop()


def test_the_page_has_landmarks_and_a_title_that_tells_whether_it_answers(tab):
    tab.open()
    for role in ("banner", "main"):
        assert tab.page.get_by_role(role).count() == 1
    names = tab.page.get_by_role("navigation").evaluate_all("all => all.map(each => each.ariaLabel)")
    assert names == ["Sections", "Conversations"]
    tab.send("story")
    tab.until_said("fox number")
    assert tab.page.title() == "● story · loopctl"
    tab.stop()
    assert tab.page.title() == "story · loopctl"


def test_on_a_phone_the_conversations_are_a_drawer_and_escape_closes_it_first(browser, site):
    context = browser.new_context(viewport={"width": 360, "height": 700})
    tab = Tab(context.new_page(), site).open()
    tab.send("story")
    tab.until_said("fox number")
    menu = tab.page.get_by_role("button", name="Conversations")
    drawer = tab.page.get_by_role("navigation", name="Conversations")
    assert not drawer.is_visible()
    menu.click()
    drawer.get_by_role("link").first.wait_for()
    tab.page.keyboard.press("Escape")
    drawer.wait_for(state="hidden")
    assert menu.evaluate("button => document.activeElement === button")
    assert tab.stop_button.is_visible()
    size = tab.stop_button.bounding_box()
    assert size["height"] >= 44
    assert size["width"] >= 300
    assert size["y"] + size["height"] <= 700
    tab.page.keyboard.press("Escape")
    tab.until_ended()
    context.close()
