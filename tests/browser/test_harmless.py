"""What a model, a tool or an address says is text, and nothing more."""

from __future__ import annotations


def test_scripts_in_markdown_and_in_tool_output_are_shown_and_not_run(tab):
    tab.open().send("hostile")
    tab.until_said("alert(6)")
    tab.until_ended()
    tab.card.locator("summary").click()
    tab.card.get_by_label("Result").get_by_text("alert(1)").wait_for()
    risky = "script, iframe, img, style, b, object, form, [onclick], [onerror], [onload]"
    made = tab.page.locator(".log").locator(risky).count()
    assert made == 0
    links = tab.page.locator(".log a").evaluate_all(
        "links => links.map(link => [link.protocol, link.rel, link.target])"
    )
    outside = [link for link in links if link[2]]
    assert outside
    assert all(link == ["http:", "noopener noreferrer", "_blank"] or link[0] == "https:" for link in outside)
    tab.page.reload()
    tab.until_said("alert(6)")
    tab.check()


def test_what_a_person_writes_is_text_too(tab):
    text = "<img src=x onerror=alert(1)> <script>alert(2)</script>"
    tab.open().send(text)
    tab.until_said("You said:")
    tab.until_ended()
    assert tab.last.locator(".asked-text").inner_text() == text
    tab.page.get_by_role("link", name="Completed").click()
    tab.page.get_by_role("heading", name=text).wait_for()
    tab.page.get_by_role("navigation", name="Sections").get_by_role("link", name="Runs").click()
    tab.page.get_by_role("main").get_by_role("link", name="<img src=x").first.wait_for()


def test_an_unknown_run_and_an_unknown_conversation_are_told_with_a_way_on(tab):
    tab.open("#/runs/no-such-run")
    tab.page.get_by_text("The server knows no run no-such-run").wait_for()
    tab.page.get_by_role("main").get_by_role("link", name="All runs").click()
    tab.page.get_by_role("heading", name="How fast a stop lands").wait_for()
    tab.open("#/chat/no-such-conversation")
    tab.page.get_by_text("The server knows no conversation of this name").wait_for()
    tab.send("hello")
    tab.until_said("You said: hello")
    tab.until_ended()
    tab.errors.clear()  # a browser tells of each 404


def test_an_address_with_anything_in_it_is_an_unknown_one(tab):
    script = "#/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    for odd in (script, "#/runs/../../healthz", "#/chat/%E0%A4%A", "#/nowhere", "#main"):
        tab.open(odd)
        tab.page.reload()
        tab.page.get_by_role("main").wait_for()
    tab.errors.clear()


def test_the_page_may_run_and_load_only_what_is_its_own(tab):
    answer = tab.page.goto(tab.site.url)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert tab.page.evaluate("document.querySelectorAll('script:not([src]), style, [style]').length") == 0
    blocked = tab.page.evaluate(
        """() => new Promise((resolve) => {
            addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "document.title = 'run'";
            document.body.append(script);
        })"""
    )
    assert blocked == "script-src-elem"
    tab.errors.clear()
