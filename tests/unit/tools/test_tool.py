"""A tool stays the function it was; the registry keeps names apart."""

import asyncio
import functools
import inspect

import pytest

from loopctl.cancel import CancelSignal
from loopctl.errors import ToolError, UsageError
from loopctl.model import ToolSpec
from loopctl.tools import Tool, ToolContext, ToolRegistry, tool

CTX = ToolContext("c1", "t", CancelSignal().token)


@tool
async def fetch(url: str, ctx: ToolContext, tries: int = 2) -> str:
    """Fetch a page."""
    await asyncio.sleep(0)
    return f"{url} {ctx.call_id} {tries}"


@tool(name="add_up", description="Add.")
def add(a: int, b: int) -> int:
    return a + b


class Shop:
    def __init__(self, price):
        self.price = price

    def buy(self, count: int) -> int:
        """Buy some."""
        return self.price * count

    async def order(self, count: int) -> int:
        return self.price * count

    @classmethod
    def made(cls, count: int) -> str:
        return f"{cls.__name__} {count}"

    @staticmethod
    def static(count: int) -> int:
        return count

    def __call__(self, count: int) -> int:
        """Call it."""
        return self.price + count


def through(function):
    """A decorator as people write them: a plain def that passes the coroutine through."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if kwargs.get("count") == 13:
            raise ValueError("no thirteens")
        return function(*args, **kwargs)

    return wrapper


def test_a_tool_says_what_it_is():
    assert (fetch.name, fetch.description, fetch.is_async, fetch.takes_context) == (
        "fetch",
        "Fetch a page.",
        True,
        True,
    )
    assert (add.name, add.description, add.is_async, add.takes_context) == ("add_up", "Add.", False, False)
    assert isinstance(add.spec, ToolSpec)
    assert repr(fetch) == "<Tool fetch(url, tries)>"


def test_a_direct_call_is_a_call_of_the_function():
    assert add(1, b=2) == 3
    assert add("a", "b") == "ab"
    assert asyncio.run(fetch("u", CTX, tries=1)) == "u c1 1"


def test_a_tool_looks_like_its_function():
    assert fetch.__name__ == "fetch"
    assert fetch.__doc__ == "Fetch a page."
    assert fetch.__module__ == __name__
    assert list(inspect.signature(fetch).parameters) == ["url", "ctx", "tries"]
    assert add.__wrapped__(2, 3) == 5


def test_call_gives_a_coroutine_of_an_async_function_and_the_result_of_a_plain_one():
    coroutine = fetch.call(fetch.bind({"url": "u"}), CTX)
    assert asyncio.iscoroutine(coroutine)
    assert asyncio.run(coroutine) == "u c1 2"
    assert add.call(add.bind({"a": "1", "b": 2}), CTX) == 3


def test_bound_methods_and_their_kin_are_tools():
    shop = Shop(5)
    for function, result in [
        (shop.buy, 15),
        (Shop.made, "Shop 3"),
        (Shop.static, 3),
        (shop.static, 3),
        (functools.partial(shop.buy), 15),
        (shop, 8),
    ]:
        made = tool(function, name="t")
        assert list(made.parameters["properties"]) == ["count"]
        assert not made.is_async
        assert made.call(made.bind({"count": 3}), CTX) == result
    assert tool(shop.buy).name == "buy"
    assert tool(shop.buy).description == tool(functools.partial(shop.buy), name="t").description == "Buy some."
    assert tool(shop, name="t").description == "Call it."
    made = tool(shop.order)
    assert made.is_async
    assert asyncio.run(made.call({"count": 2}, CTX)) == 10


def test_a_wrapped_async_function_is_async_and_its_wrapper_runs_inside_the_coroutine():
    made = tool(through(Shop(5).order))
    assert made.is_async
    assert made.name == "order"
    assert asyncio.run(made.call({"count": 2}, CTX)) == 10
    refused = made.call({"count": 13}, CTX)  # nothing is raised yet
    with pytest.raises(ValueError, match="thirteen"):
        asyncio.run(refused)


def test_an_async_callable_object_is_async():
    class Waiter:
        async def __call__(self, count: int) -> int:
            return count

    made = tool(Waiter(), name="waiter")
    assert made.is_async
    assert asyncio.run(made.call({"count": 2}, CTX)) == 2


def test_a_bound_keyword_of_a_partial_is_its_default():
    made = tool(functools.partial(add.__wrapped__, b=4), name="add4")
    assert made.parameters["properties"]["b"]["default"] == 4
    assert made.call(made.bind({"a": 1}), CTX) == 5


def test_a_registry_is_a_mapping_in_the_order_given_and_makes_tools_of_functions():
    def plain(a: int): ...

    tools = ToolRegistry([fetch, plain, add])
    assert list(tools) == ["fetch", "plain", "add_up"]
    assert len(tools) == 3
    assert tools["fetch"] is fetch
    assert isinstance(tools["plain"], Tool)
    assert tools.get("nothing") is None
    assert "add_up" in tools
    assert [spec.name for spec in tools.specs] == ["fetch", "plain", "add_up"]
    assert repr(tools) == "<ToolRegistry fetch, plain, add_up>"
    assert list(ToolRegistry()) == []


def test_two_tools_with_one_name_are_refused_and_both_are_named():
    @tool(name="fetch")
    def other(): ...

    with pytest.raises(UsageError) as caught:
        ToolRegistry([fetch, add, other])
    named = ("named fetch", ".fetch and", "<locals>.other", "name=")
    assert [part for part in named if part not in str(caught.value)] == []


def test_the_same_tool_twice_is_refused_too():
    with pytest.raises(UsageError, match="two tools are named add_up"):
        ToolRegistry([add, add])


def test_errors_of_arguments_call_the_tool_by_the_name_the_model_knows():
    with pytest.raises(ToolError, match=r"^add_up was not run"):
        add.bind({})
