"""What a model sent: coerced if it fits, else told back to the model so that it can do better."""

import datetime
import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loopctl.errors import Cancelled, ToolError
from loopctl.record import CancelReason
from loopctl.tools import tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Filter(BaseModel):
    field: str
    size: int = 1


@dataclass
class Query:
    text: str
    filters: list[Filter]


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def unsendable(value: int) -> int:
    raise ValueError("not \ud800")


def broken(value: int) -> int:
    raise RuntimeError("no \ud800")


def stopped(value: int) -> int:
    raise Cancelled(CancelReason())


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date


@tool
def search(
    query: Query,
    *,
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    colour: Colour = Colour.RED,
    order: Literal["up", "down"] = "up",
    since: datetime.date | None = None,
    tags: set[str] = frozenset(),
    mixed: int | list[int] = 0,
    half: Annotated[int, AfterValidator(even)] = 0,
): ...


GOOD = {"query": {"text": "q", "filters": []}}
FITS = [
    ({}, {}),
    ({"limit": 5}, {"limit": 5}),
    ({"limit": "5"}, {"limit": 5}),
    ({"limit": 5.0}, {"limit": 5}),
    ({"colour": "blue"}, {"colour": Colour.BLUE}),
    ({"since": "2024-02-29"}, {"since": datetime.date(2024, 2, 29)}),
    ({"since": None}, {"since": None}),
    ({"tags": ["a", "b", "a"]}, {"tags": {"a", "b"}}),
    ({"mixed": [1, "2"]}, {"mixed": [1, 2]}),
    ({"order": "down", "half": 4}, {"order": "down", "half": 4}),
]


@pytest.mark.parametrize(("sent", "bound"), FITS)
def test_what_fits_is_coerced_and_what_was_not_sent_is_left_to_the_function(sent, bound):
    assert search.bind(GOOD | sent) == {"query": Query("q", [])} | bound


UNFIT = [
    # what was sent, the lines that name it, what those lines must say
    ({"limit": "many"}, ["limit: "], ['given "many"', "valid integer"]),
    ({"limit": 101}, ["limit: "], ["given 101", "100"]),
    ({"limit": None}, ["limit: "], ["given null", "integer"]),
    ({"limit": True}, [], []),
    ({"colour": "green"}, ["colour: "], ['given "green"', "'red' or 'blue'"]),
    ({"order": 3}, ["order: "], ["given 3", "'up' or 'down'"]),
    ({"since": "tomorrow"}, ["since: "], ['given "tomorrow"', "date"]),
    ({"tags": "a"}, ["tags: "], ['given "a"', "array"]),
    ({"mixed": "x"}, ["mixed: "], ['given "x"', "integer", " or ", "array"]),
    ({"mixed": [1, "x"]}, ["mixed", "mixed[1]: "], ['given "x"', "integer"]),
    ({"half": 3}, ["half: "], ["given 3, must be even"]),
    ({"query": None}, ["query: "], ["given null"]),
    ({"query": {"text": 1, "filters": []}}, ["query.text: "], ["given 1", "string"]),
    ({"query": {"filters": []}}, ["query.text: "], ["missing"]),
    (
        {"query": {"text": "q", "filters": [{"size": "x"}]}},
        ["query.filters[0].field", "query.filters[0].size"],
        ['"x"'],
    ),
    ({"query": {"text": "q", "filters": [], "where": 1}}, ["query.where: "], ["unknown, leave it out"]),
    ({"limits": 5}, ["limits: "], ["unknown", "query, limit, colour"]),
    ({"limit": "x", "order": "y", "z": 1}, ["limit: ", "order: ", "z: "], ["unknown"]),
]


@pytest.mark.parametrize(("sent", "lines", "said"), UNFIT)
def test_what_does_not_fit_is_named_with_what_was_given_and_what_was_expected(sent, lines, said):
    if not lines:
        assert search.bind(GOOD | sent)
        return
    with pytest.raises(ToolError) as caught:
        search.bind(GOOD | sent)
    first, *problems = str(caught.value).split("\n- ")
    assert first.startswith("search was not run")
    assert len(problems) == len(lines)
    for line in lines:
        assert any(problem.startswith(line) for problem in problems), str(caught.value)
    assert [part for part in said if part not in str(caught.value)] == [], str(caught.value)
    assert "pydantic" not in str(caught.value)


MISSING = [
    (str, "string"),
    (datetime.date, "string (date)"),
    (list[int], "array of integer"),
    (Literal["a", "b"], '"a" or "b"'),
    (Literal["a"], '"a"'),
    (Colour, '"red" or "blue"'),
    (int | None, "integer or null"),
    (Query, "object with text, filters"),
    (dict[str, int], "object"),
    (list, "array"),
]


@pytest.mark.parametrize(("hint", "expected"), MISSING)
def test_a_missing_argument_is_named_with_what_it_should_be(hint, expected):
    def f(x, also: int): ...

    f.__annotations__["x"] = hint
    with pytest.raises(ToolError) as caught:
        tool(f).bind({})
    assert str(caught.value).split("\n- ")[1:] == [
        f"x: missing, should be {expected}",
        "also: missing, should be integer",
    ]


def test_a_missing_argument_of_any_type_is_just_missing():
    @tool
    def f(x: Any): ...

    with pytest.raises(ToolError, match=r"\n- x: missing$"):
        f.bind({})


def test_an_argument_for_a_tool_that_takes_none_is_refused():
    @tool
    def now(): ...

    with pytest.raises(ToolError, match=r"\n- zone: unknown argument; it takes none$"):
        now.bind({"zone": "UTC"})


def test_what_every_member_of_a_union_says_is_said_once():
    @tool
    def f(x: list[int] | list[str]): ...

    with pytest.raises(ToolError, match=r"\n- x: given 3, should be a valid array$"):
        f.bind({"x": 3})


def test_a_long_value_is_quoted_shortened():
    with pytest.raises(ToolError) as caught:
        search.bind(GOOD | {"limit": "x" * 5000})
    assert len(str(caught.value)) < 400
    assert "xxx… (5002 characters)" in str(caught.value)


def test_many_problems_are_counted_and_not_all_listed():
    with pytest.raises(ToolError) as caught:
        search.bind(GOOD | {f"x{number}": number for number in range(500)})
    assert len(str(caught.value)) < 2000
    assert str(caught.value).endswith("and 488 more")


@pytest.mark.parametrize("sent", [[1], "text", None, 3])
def test_arguments_that_are_no_object_are_refused(sent):
    with pytest.raises(ToolError, match="must be a JSON object, not"):
        search.bind(sent)


def test_a_validator_that_breaks_is_reported_and_not_raised():
    @tool
    def f(n: Annotated[int, AfterValidator(broken)]): ...

    with pytest.raises(ToolError, match=r"f was not run: .*RuntimeError: no \ufffd") as caught:
        f.bind({"n": 1})
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_what_a_validator_says_can_be_sent():
    @tool
    def f(n: Annotated[int, AfterValidator(unsendable)]): ...

    with pytest.raises(ToolError, match="not ") as caught:
        f.bind({"n": 1})
    str(caught.value).encode()


def test_a_validator_that_raises_our_own_error_is_let_through():
    @tool
    def f(n: Annotated[int, AfterValidator(stopped)]): ...

    with pytest.raises(Cancelled):
        f.bind({"n": 1})


def test_values_are_read_as_json_so_that_strict_models_work():
    @tool
    def f(x: Strict): ...

    assert f.bind({"x": {"day": "2024-01-01"}}) == {"x": Strict(day=datetime.date(2024, 1, 1))}


def test_values_that_a_program_put_there_are_validated_too():
    class Own:
        pass

    @tool
    def f(x: Any, n: int = 0): ...

    own = Own()
    assert f.bind({"x": own, "n": "3"}) == {"x": own, "n": 3}
    with pytest.raises(ToolError, match="n: given"):
        f.bind({"x": own, "n": own})
    looped = []
    looped.append(looped)
    with pytest.raises(ToolError, match="n: given a value of type list, should be"):
        f.bind({"x": own, "n": looped})


def test_a_lone_surrogate_arrives_and_is_quoted_in_text_that_can_be_sent():
    @tool
    def f(x: str, n: int = 0): ...

    assert f.bind({"x": "a\ud800"}) == {"x": "a\ud800"}
    with pytest.raises(ToolError) as caught:
        f.bind({"x": "a", "n": "\ud800"})
    assert '\n- n: given "\ufffd"' in str(caught.value)
    with pytest.raises(ToolError) as caught:
        f.bind({"x": "a", "\ud800": 1})
    assert '\n- arguments: given "\ufffd"' in str(caught.value)


def test_not_a_number_stays_not_a_number():
    @tool
    def f(x: float): ...

    assert str(f.bind({"x": float("nan")})["x"]) == "nan"
    assert f.bind({"x": float("-inf")})["x"] == float("-inf")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(list(search.parameters["properties"]))


@given(st.dictionaries(NAMES | st.text(max_size=5), JSON, max_size=6))
def test_any_json_object_is_bound_or_told_back_in_text_that_can_be_sent(sent):
    try:
        bound = search.bind(sent)
    except ToolError as error:
        text = str(error)
        text.encode()
        assert len(text) < 6000
        assert "query" in text or "query" in sent
    else:
        assert bound.keys() == sent.keys()


@tool
def keep(a: Any, b: dict[str, Any], c: list[Any] = ()): ...


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN, st.dictionaries(st.text(max_size=4), PLAIN, max_size=4), st.lists(PLAIN, max_size=4))
def test_what_needs_no_coercion_arrives_unchanged(a, b, c):
    sent = json.loads(json.dumps({"a": a, "b": b, "c": c}))
    assert keep.bind(sent) == sent
