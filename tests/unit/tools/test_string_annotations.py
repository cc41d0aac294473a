"""Annotations that are strings, as `from __future__ import annotations` makes them, are resolved or refused by name."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from loopctl.errors import UsageError
from loopctl.tools import tool

if TYPE_CHECKING:
    from decimal import Decimal

    from loopctl.tools import ToolContext


class Near(BaseModel):
    a: int


def test_a_context_imported_for_type_checkers_only_is_found():
    @tool
    def f(ctx: ToolContext, a: int): ...

    @tool
    def g(a: int, ctx: ToolContext | None = None): ...

    assert f.takes_context
    assert g.takes_context
    assert list(f.parameters["properties"]) == list(g.parameters["properties"]) == ["a"]


def test_types_of_the_module_are_found():
    @tool
    def f(a: Near, b: list[Near] | None, c: Annotated[int, Field(ge=1)], d: Literal["x", "y"] = "x"): ...

    assert f.bind({"a": {"a": 1}, "b": [{"a": 2}], "c": 3}) == {"a": Near(a=1), "b": [Near(a=2)], "c": 3}
    assert f.parameters["properties"]["d"]["enum"] == ["x", "y"]


def test_types_of_the_enclosing_functions_are_found():
    class Outer(BaseModel):
        a: int

    def build():
        @dataclass
        class Inner:
            a: int
            near: Outer
            again: Inner | None = None

        @tool
        def f(a: Outer, b: Inner): ...

        return f, Inner

    made, inner = build()
    bound = made.bind({"a": {"a": 1}, "b": {"a": 2, "near": {"a": 3}}})
    assert bound == {"a": Outer(a=1), "b": inner(2, Outer(a=3))}


def test_the_innermost_of_two_types_with_one_name_is_taken():
    Near = Literal["outer"]  # noqa: N806

    def build():
        Near = Literal["inner"]  # noqa: N806

        @tool
        def f(a: Near): ...

        assert Near
        return f

    assert Near
    assert build().bind({"a": "inner"}) == {"a": "inner"}


def test_of_a_function_that_calls_itself_the_call_that_defines_the_tool_counts():
    def build(depth):
        Local = Literal["inner"] if depth == 0 else Literal["outer"]  # noqa: N806
        if depth:
            return build(depth - 1)

        @tool
        def f(a: Local): ...

        assert Local
        return f

    assert build(2).bind({"a": "inner"}) == {"a": "inner"}


def enclosing():
    Local = Literal["mine"]  # noqa: N806

    def f(a: Local): ...

    elsewhere: dict[str, Any] = {}
    exec("def enclosing(make):\n    Local = int\n    return make()", elsewhere)
    assert Local
    return elsewhere["enclosing"](lambda: tool(f))


def test_a_function_of_the_same_name_in_another_module_is_not_taken_for_the_enclosing_one():
    assert enclosing().bind({"a": "mine"}) == {"a": "mine"}


def test_a_type_that_the_function_itself_closes_over_is_found_later():
    def build():
        class Local(BaseModel):
            a: int

        def f(a: Local):
            return Local(a=a.a + 1)

        return f

    made = tool(build())
    assert made.call(made.bind({"a": {"a": 1}}), None).a == 2


def test_a_local_type_that_is_gone_is_refused_by_name():
    def build():
        class Local(BaseModel):
            a: int

        def f(good: int, a: list[Local]): ...

        return f

    with pytest.raises(UsageError, match=r"tool f: parameter a: .*list\[Local\].*'Local' is not defined.*before"):
        tool(build())


def test_a_type_imported_for_type_checkers_only_is_refused_by_name():
    def f(good: int, price: Decimal): ...

    with pytest.raises(UsageError, match=r"tool f: parameter price: .*Decimal.*TYPE_CHECKING"):
        tool(f)


def test_an_annotation_that_is_no_expression_is_refused_by_name():
    def f(a): ...

    f.__annotations__["a"] = "one of these"
    with pytest.raises(UsageError, match=r"tool f: parameter a: .*'one of these'"):
        tool(f)


def test_the_return_annotation_is_never_looked_at():
    @tool
    def f(a: int) -> Nowhere: ...  # noqa: F821

    assert list(f.parameters["properties"]) == ["a"]


def test_the_annotations_of_a_method_are_found():
    class Kit:
        class Query(BaseModel):
            a: int

        def find(self, query: Kit.Query, ctx: ToolContext): ...

    made = tool(Kit().find)
    assert made.takes_context
    assert list(made.parameters["properties"]) == ["query"]


def test_a_decorated_function_is_read_in_its_own_module():
    def wrap(function):
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any):
            return function(*args, **kwargs)

        return wrapper

    @tool
    @wrap
    def f(a: Near, ctx: ToolContext):
        return a.a

    assert f.takes_context
    assert f.call(f.bind({"a": {"a": 4}}), None) == 4
