"""Signatures and the JSON Schema that a model is shown for them: tables of both."""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from loopctl.tools import ToolContext, tool
from tests.unit.tools.plain import complaints


class Colour(enum.Enum):
    """Colours there are."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(BaseModel):
    """How large."""

    title: str
    width: int = Field(gt=0, description="In pixels.")
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict):
    depth: int
    note: NotRequired[str]


class Pair(NamedTuple):
    key: str
    value: int


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []
    size: Size | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


SIZE = {
    "type": "object",
    "description": "How large.",
    "properties": {
        "title": {"type": "string"},
        "width": {"type": "integer", "exclusiveMinimum": 0, "description": "In pixels."},
        "colour": {"type": "string", "enum": ["red", "blue"], "description": "Colours there are.", "default": "red"},
    },
    "required": ["title", "width"],
}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
    "required": ["x"],
    "additionalProperties": False,
}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}

TYPES = [
    (str, STRING),
    (int, INTEGER),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (Any, {}),
    (object, {}),
    (bytes, STRING),
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": INTEGER}),
    (collections.abc.Sequence[str], {"type": "array", "items": STRING}),
    (set[int], {"type": "array", "items": INTEGER}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (
        tuple[int, str],
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [INTEGER, STRING],
            "items": {"anyOf": [INTEGER, STRING]},
        },
    ),
    (
        tuple[int, int],
        {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, INTEGER], "items": INTEGER},
    ),
    (
        Pair,
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [STRING, INTEGER],
            "items": {"anyOf": [STRING, INTEGER]},
        },
    ),
    (dict, {"type": "object", "additionalProperties": True}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (dict[Colour, int], {"type": "object", "additionalProperties": INTEGER}),
    (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045 - the old spelling must work too
    (int | str | None, {"anyOf": [INTEGER, STRING, NULL]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a"], {"type": "string", "const": "a"}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Colour, {"type": "string", "enum": ["red", "blue"], "description": "Colours there are."}),
    (Size, SIZE),
    (Point, POINT),
    (list[Point], {"type": "array", "items": POINT}),
    (
        Options,
        {
            "type": "object",
            "properties": {"depth": INTEGER, "note": STRING},
            "required": ["depth"],
            "additionalProperties": False,
        },
    ),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "const": "cat"}, "lives": INTEGER},
                    "required": ["kind", "lives"],
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "dog"},
                        "tricks": {"type": "array", "items": STRING},
                    },
                    "required": ["kind", "tricks"],
                },
            ]
        },
    ),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, STRING),
    (decimal.Decimal, {"anyOf": [{"type": "number"}, STRING]}),
    (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
    (Annotated[str, Field(pattern="^a+$")], {"type": "string", "pattern": "^a+$"}),
    (Annotated[str, Field(pattern="a+$")], STRING),
    (Annotated[str, Field(pattern="^a+")], STRING),
    (Annotated[str, Field(pattern="^(?:a)$")], STRING),
    (Annotated[str, Field(title="T", json_schema_extra={"x-own": 1})], STRING),
]


@pytest.mark.parametrize(("hint", "expected"), TYPES, ids=[str(hint) for hint, _ in TYPES])
def test_each_type_has_the_plain_schema_that_servers_accept(hint, expected):
    def f(x): ...

    f.__annotations__ = {"x": hint}
    parameters = tool(f).parameters
    assert parameters == {
        "type": "object",
        "properties": {"x": expected},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert complaints(parameters) == []


def test_a_tool_without_parameters_has_an_empty_object():
    @tool
    def now(): ...

    assert now.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert complaints(now.parameters) == []


def test_a_type_that_refers_to_itself_keeps_its_definition_and_nothing_else_does():
    @tool
    def plant(tree: Tree, size: Size): ...

    assert plant.parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert plant.parameters["properties"]["size"] == SIZE
    assert plant.parameters["$defs"].keys() == {"Tree"}
    tree = plant.parameters["$defs"]["Tree"]["properties"]
    assert tree["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert tree["size"]["anyOf"] == [SIZE, NULL]
    assert complaints(plant.parameters) == []


def test_a_type_that_holds_one_that_refers_to_itself_is_put_in_place():
    class Forest(BaseModel):
        trees: list[Tree]

    @tool
    def plant(forest: Forest): ...

    assert plant.parameters["properties"]["forest"]["properties"]["trees"]["items"] == {"$ref": "#/$defs/Tree"}
    assert plant.parameters["$defs"].keys() == {"Tree"}


def test_two_types_that_refer_to_each_other_keep_both_definitions():
    @tool
    def f(a: "A"): ...

    assert f.parameters["$defs"].keys() == {"A", "B"}
    assert complaints(f.parameters) == []


class A(BaseModel):
    b: "B | None" = None


class B(BaseModel):
    a: A | None = None


def test_a_parameter_or_field_may_have_the_name_of_a_schema_keyword():
    @tool
    def f(title: str, default: int, properties: dict[str, int], format: str, size: Size): ...

    assert list(f.parameters["properties"]) == ["title", "default", "properties", "format", "size"]
    assert f.parameters["properties"]["format"] == STRING
    assert "title" in f.parameters["properties"]["size"]["properties"]
    assert f.bind({"title": "t", "default": 1, "properties": {}, "format": "f", "size": {"title": "x", "width": 1}})


def test_a_parameter_may_have_a_name_that_pydantic_keeps_for_itself():
    @tool
    def f(model_config: str, copy: str, _hidden: int, json: str): ...

    sent = {"model_config": "a", "copy": "b", "_hidden": 3, "json": "c"}
    assert f.bind(sent) == sent


LOOPED: list[Any] = []
LOOPED.append(LOOPED)
DEFAULTS = [
    (int, 3, {"type": "integer", "default": 3}),
    (str, "", {"type": "string", "default": ""}),
    (bool, False, {"type": "boolean", "default": False}),
    (int | None, None, {"anyOf": [INTEGER, NULL], "default": None}),
    (int, None, {"anyOf": [INTEGER, NULL], "default": None}),
    (Any, None, {"default": None}),
    (Level, Level.HIGH, {"type": "integer", "enum": [1, 2], "default": 2}),
    (Point, Point(1.0), POINT | {"default": {"x": 1.0, "y": 0.0}}),
    (tuple[int, ...], (1, 2), {"type": "array", "items": INTEGER, "default": [1, 2]}),
    (str, object(), STRING),
    (float, float("inf"), {"type": "number"}),
    (float, float("nan"), {"type": "number"}),
    (str, "\udcff", STRING),
    (list[Any], LOOPED, {"type": "array", "items": {}}),
    (Annotated[float, Field(le=float("inf"), ge=0)], 1.0, {"type": "number", "minimum": 0, "default": 1.0}),
    (Point, None, {"anyOf": [POINT, NULL], "default": None}),
]


@pytest.mark.parametrize(("hint", "default", "expected"), DEFAULTS)
def test_a_default_is_shown_and_makes_the_argument_optional(hint, default, expected):
    def f(x=default):
        return x

    f.__annotations__ = {"x": hint}
    made = tool(f)
    assert made.parameters["properties"]["x"] == expected
    assert "required" not in made.parameters
    assert made.bind({}) == {}
    assert made.call(made.bind({}), None) is default
    assert complaints(made.parameters) == []


def test_null_is_taken_where_the_default_is_none():
    @tool
    def f(a: int = None, b: Annotated[int, Field(ge=1, description="Bee.")] = None): ...  # noqa: RUF013

    assert f.bind({"a": None, "b": None}) == {"a": None, "b": None}
    assert f.parameters["properties"]["b"]["description"] == "Bee."
    assert f.parameters["properties"]["b"]["anyOf"][0]["minimum"] == 1


def test_an_alias_is_what_the_model_sees_and_the_name_is_what_the_function_gets():
    @tool
    def f(from_: Annotated[str, Field(alias="from")], to: str = "x", until_: Annotated[int, Field(alias="until")] = 9):
        return from_, to, until_

    assert list(f.parameters["properties"]) == ["from", "to", "until"]
    assert f.parameters["properties"]["until"]["default"] == 9
    assert f.call(f.bind({"from": "a", "until": 3}), None) == ("a", "x", 3)


def test_the_context_is_found_anywhere_and_never_shown():
    def first(ctx: ToolContext, a: int): ...
    def last(a: int, anything: ToolContext): ...
    def keyword(a: int, *, c: ToolContext): ...
    def optional(a: int, c: ToolContext | None = None): ...
    def old(a: int, c: Optional[ToolContext] = None): ...  # noqa: UP045
    def quoted(a: int, c: "ToolContext"): ...
    def annotated(a: int, c: Annotated[ToolContext, "mine"]): ...

    for function in (first, last, keyword, optional, old, quoted, annotated):
        made = tool(function)
        assert made.takes_context, function
        assert list(made.parameters["properties"]) == ["a"], function
        assert made.bind({"a": 1}) == {"a": 1}
    assert not tool(lambda: None, name="f").takes_context


def test_the_spec_is_what_the_tool_says():
    @tool
    def f(a: int):
        """Do it."""

    spec = f.spec
    assert (spec.name, spec.description, spec.parameters) == ("f", "Do it.", f.parameters)
