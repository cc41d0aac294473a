"""`loopctl mcp serve`, called by the page of the official MCP inspector, whose Cancel button is pressed."""

from __future__ import annotations

import re

import pytest

from tests.clients.inspector import ERAS, Inspector
from tests.clients.sdk import served_http


@pytest.fixture(scope="module")
def inspector(clients, tmp_path_factory):
    with Inspector(clients, tmp_path_factory.mktemp("inspector")) as inspector:
        yield inspector


@pytest.fixture(scope="module")
def address(inspector, browser):
    """Where its page is; the browser is asked for so that nothing is started without one."""
    with served_http(inspector.peer) as url:
        yield inspector.page(url)


def choose(page, tool, **arguments):
    """Fill in the form of *tool*, and call it."""
    page.get_by_role("button", name=tool, exact=True).click()
    for name, value in arguments.items():
        page.get_by_label(re.compile(rf"^{name}( \*)?$")).fill(value)
    page.get_by_role("button", name="Execute Tool").click()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_its_cancel_button_stops_the_call_and_the_next_call_works(inspector, address, page, way, era):
    server = f"{way}-{era}"
    page.goto(address)
    page.get_by_role("switch", name=f'Connect or disconnect "{server}"').click(force=True)
    page.get_by_text("Tools", exact=True).first.click()
    for tool, line in (
        ("slow", "cancelled slow {}"),
        ("plain", "told plain {}: user: the client cancelled the call (by mcp)"),
    ):
        choose(page, tool, name=f"{tool} {server}")
        inspector.wait_for(f"begun {tool} {server}")
        cancel = page.get_by_role("button", name="Cancel", exact=True)
        cancel.click()
        cancel.wait_for(state="hidden")
        inspector.wait_for(line.format(server))
    page.get_by_text("Tool call cancelled").first.wait_for()
    choose(page, "add", a="20", b="3")
    page.get_by_text("23", exact=True).wait_for()
