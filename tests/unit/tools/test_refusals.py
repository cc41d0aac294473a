"""What cannot be a tool is refused when it is made, with a text that names the part and the way out."""

import asyncio
import functools
import socket
import sys
import typing
from typing import Any

import pytest
from pydantic import Field

from loopctl.errors import UsageError
from loopctl.tools import ToolContext, tool


class Cloud:
    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        raise RuntimeError("no schema today")


def untyped(good: int, limit): ...
def untyped_context(ctx): ...
def starred(good: int, *terms: str): ...
def double_starred(good: int, **filters: str): ...
def positional(url: str, /, good: int): ...
def two_contexts(a: ToolContext, good: int, b: ToolContext): ...
def context_or_text(good: int, ctx: ToolContext | str): ...
def field_default(good: int, n: int = Field(3, ge=1)): ...
def no_json(good: int, sock: socket.socket): ...
def inside(good: int, socks: list[socket.socket] | None = None): ...
def callback(good: int, done: typing.Callable[[int], int]): ...
def hook(good: int, cloud: Cloud): ...
def not_a_type(good: int, n: 3): ...
def generator(good: int):
    yield good


async def async_generator(good: int):
    yield good


class Kit:
    def method(self, good: int): ...

    def __call__(self, good: int): ...


REFUSED = [
    (untyped, ["tool untyped", "parameter limit", "no annotation", "limit: str", "Any"]),
    (untyped_context, ["parameter ctx", "ctx: ToolContext"]),
    (starred, ["tool starred", "*terms", "list parameter"]),
    (double_starred, ["tool double_starred", "**filters", "dict parameter"]),
    (positional, ["tool positional", "url", "positional-only", "/"]),
    (two_contexts, ["tool two_contexts", "a and b", "ToolContext"]),
    (context_or_text, ["tool context_or_text", "ctx", "not both"]),
    (field_default, ["tool field_default", "parameter n", "n: Annotated["]),
    (no_json, ["tool no_json", "parameter sock", "socket", "JSON"]),
    (inside, ["tool inside", "parameter socks", "socket"]),
    (callback, ["tool callback", "parameter done"]),
    (hook, ["tool hook", "parameter cloud", "no schema today"]),
    (not_a_type, ["tool not_a_type", "parameter n"]),
    (generator, ["generator", "yields", "Return it"]),
    (async_generator, ["async_generator", "yields"]),
    (Kit.method, ["parameter self", "bound", "tool(thing.method)"]),
    (Kit, ["Kit", "class"]),
    (lambda a: a, ["<lambda>", "name="]),
    (Kit(), ["Kit object", "name="]),
    (functools.partial(untyped, 1), ["no name", "name="]),
    (tool(lambda: None, name="made"), ["made", "tool already"]),
    (3, ["3", "function"]),
    ("fetch", ["'fetch'", "@tool(name="]),
]


@pytest.mark.parametrize(("function", "named"), REFUSED, ids=[str(named[0]) for _, named in REFUSED])
def test_what_a_model_cannot_call_is_refused_by_name(function, named):
    with pytest.raises(UsageError) as caught:
        tool(function)
    missing = [part for part in named if part not in str(caught.value)]
    assert missing == [], str(caught.value)
    assert "good" not in str(caught.value)


def test_any_is_a_way_to_say_that_anything_will_do():
    @tool
    def f(x: Any): ...

    assert f.bind({"x": [1, {"a": None}]}) == {"x": [1, {"a": None}]}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic reads typing.TypedDict from Python 3.12 on")
def test_the_typed_dict_that_pydantic_cannot_read_is_refused_with_the_one_it_can():
    class Options(typing.TypedDict):
        a: int

    def f(x: Options): ...

    with pytest.raises(UsageError, match=r"tool f: parameter x .*typing_extensions\.TypedDict"):
        tool(f)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 65, "a\n", "fetch!"])
def test_a_name_that_servers_refuse_is_refused_here(name):
    with pytest.raises(UsageError) as caught:
        tool(lambda: None, name=name)
    assert repr(name) in str(caught.value)
    assert "1 to 64" in str(caught.value)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_a_name_that_servers_accept_is_kept(name):
    assert tool(lambda: None, name=name).name == name


def test_an_option_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UsageError, match=r"'timeuot'.*name, description, parallel, .*timeout"):
        tool(timeuot=3)


def test_nothing_runs_when_a_tool_is_made():
    ran = []

    @tool
    async def f(a: int):
        ran.append(a)

    assert ran == []
    asyncio.run(f(1))
    assert ran == [1]
