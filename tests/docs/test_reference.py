"""The tables of the reference name what is there: each field, default, member and error, and nothing else."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import loopctl
from loopctl import errors, messages, model, record
from loopctl.concurrency import Straggler
from loopctl.control import Receipt
from loopctl.driver import Agent, RunConfig, RunHandle, Session
from loopctl.fallback import BreakerConfig
from loopctl.recovery import ModelRecovery, ToolRecovery
from loopctl.store import Effect, Ledger
from loopctl.tools import _decorator

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
FIELDS = [
    ("agents-and-runs.md", RunConfig),
    ("records.md", record.Run),
    ("records.md", record.Stop),
    ("records.md", record.RunStatus),
    ("records.md", record.Turn),
    ("records.md", record.ToolCallRecord),
    ("records.md", record.StragglerRecord),
    ("records.md", messages.Usage),
    ("signals.md", record.CancelReason),
    ("models.md", model.ModelRequest),
    ("models.md", model.ToolSpec),
    ("models.md", ModelRecovery),
    ("models.md", BreakerConfig),
    ("agents-and-runs.md", ToolRecovery),
    ("store.md", Effect),
    ("control.md", Receipt),
]
MEMBERS = [
    ("agents-and-runs.md", Agent),
    ("agents-and-runs.md", Session),
    ("agents-and-runs.md", RunHandle),
    ("records.md", Straggler),
    ("signals.md", loopctl.CancelSignal),
    ("signals.md", loopctl.Registration),
    ("tool-context.md", loopctl.ToolContext),
    ("store.md", Ledger),
]
OPTIONS = {RunConfig, ModelRecovery, BreakerConfig, ToolRecovery, record.CancelReason}
"""What a caller makes: their defaults are in the second column."""
ENGINE = {Straggler: {"on_end", "forget", "end", "record"}}
"""Public in the code for the engine's sake, or named in the sentence above the table."""


def section(page, name):
    """The text below the heading of *name*, to the next heading of its level."""
    text = (REFERENCE / page).read_text("utf-8")
    found = re.search(rf"^(##+) `{name}`\n(.*?)(?=^##? |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} has no heading for {name}"
    return found[2]


def rows(text):
    """The cells of each row of the tables in *text*, without their heads."""
    lines = [re.split(r"(?<!\\)\|", line.strip("| \n")) for line in text.splitlines() if line.startswith("|")]
    rules = [index for index, line in enumerate(lines) if set("".join(line)) <= {"-", " "}]
    return [[cell.strip() for cell in line] for i, line in enumerate(lines) if i not in rules and i + 1 not in rules]


def named(cell):
    return re.findall(r"`(?:await |async )?(?:CancelSignal\.)?(\w+)[^`]*`", cell)


def first_table(text):
    return re.search(r"(^\|.*\n)+", text, re.MULTILINE)[0]


@pytest.mark.parametrize(("page", "kind"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_a_table_has_each_field_in_order(page, kind):
    table = rows(first_table(section(page, kind.__name__)))
    assert [named(row[0])[0] for row in table] == [field.name for field in fields(kind)]


@pytest.mark.parametrize(("page", "kind"), [pair for pair in FIELDS if pair[1] in OPTIONS])
def test_the_defaults_are_those_of_the_code(page, kind):
    text = first_table(section(page, kind.__name__))
    told = [row[1].strip("`") for row in rows(text)]
    assert told == [getattr(field.default, "__name__", repr(field.default)) for field in fields(kind)]


@pytest.mark.parametrize(("page", "kind"), MEMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_a_table_has_each_public_member(page, kind):
    told = {name for row in rows(section(page, kind.__name__)) for name in named(row[0])}
    there = {name for name in dir(kind) if not name.startswith("_")} - ENGINE.get(kind, set())
    assert there - told == set()


@pytest.mark.parametrize(
    ("kind", "method"),
    [(Agent, "session"), (Agent, "run_sync"), (Session, "start"), (Session, "run"), (RunHandle, "cancel")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_signature_names_each_parameter(kind, method):
    cells = [row[0] for row in rows(section("agents-and-runs.md", kind.__name__))]
    (cell,) = [cell for cell in cells if re.match(rf"`(await )?{method}\(", cell)]
    assert re.findall(r"(\w+)(?:=[\w.()]+)?[,)]", cell) == list(inspect.signature(getattr(kind, method)).parameters)[1:]


def test_the_parameters_of_an_agent_are_all_there():
    table = rows(first_table(section("agents-and-runs.md", "Agent")))
    assert [named(row[0])[0] for row in table] == list(inspect.signature(Agent).parameters)


def test_each_event_has_its_row_with_its_fields():
    table = rows((REFERENCE / "events.md").read_text("utf-8"))
    told = {named(row[0])[0]: {*named(row[1]), "run_id"} for row in table}
    assert told == {kind.__name__: {field.name for field in fields(kind)} for kind in get_args(record.Event)}


@pytest.mark.parametrize(("heading", "kinds"), [("Deltas", get_args(model.Delta)), ("Messages", None)], ids=str)
def test_each_delta_and_each_message_has_its_row_with_its_fields(heading, kinds):
    text = (REFERENCE / "models.md").read_text("utf-8").split(f"## {heading}\n")[1]
    kinds = kinds or (*get_args(messages.Message), *get_args(messages.Block), messages.ToolResult)
    table = rows(first_table(text))
    assert {row[0]: named(row[1]) for row in table} == {
        f"`{kind.__name__}`": [field.name for field in fields(kind)] for kind in kinds
    }


def test_each_error_has_its_row_and_its_place_in_the_tree():
    page = (REFERENCE / "errors.md").read_text("utf-8")
    assert sorted(named(row[0])[0] for row in rows(page)) == sorted(errors.__all__)
    tree = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    drawn = {re.search(r"\w+", line)[0]: re.search(r"\w", line).start() // 4 for line in tree.splitlines()}
    depth = {name: len(getattr(errors, name).__mro__) - len(errors.LoopError.__mro__) for name in errors.__all__}
    assert drawn == depth


def test_each_status_origin_and_urgency_has_its_row():
    statuses = [row[0] for row in rows(section("records.md", "CallStatus"))]
    assert statuses == [f"`{status.value}`" for status in record.CallStatus]
    origins = [row[0] for row in rows(section("signals.md", "CancelReason"))][3:]
    assert origins == [f"`{origin}`" for origin in get_args(record.Origin)]
    urgencies = [row[0] for row in rows(section("signals.md", "Urgency"))]
    assert urgencies == [f"`{urgency.name}` ({urgency.value})" for urgency in record.Urgency]


def test_each_public_name_has_its_row():
    table = rows(first_table((REFERENCE / "api.md").read_text("utf-8")))
    assert [row[0] for row in table] == [f"`{name}`" for name in loopctl.__all__]


def test_the_options_of_a_tool_that_are_not_built_yet_are_listed():
    listed = re.split(r"^## Not built yet\n", (REFERENCE / "api.md").read_text("utf-8"), flags=re.MULTILINE)[1]
    not_built = getattr(_decorator, "_NOT_BUILT", ())
    assert [name for name in not_built if not re.search(rf"\b{name}\b", first_table(listed))] == []


def test_each_link_to_a_heading_leads_to_one():
    docs = REFERENCE.parent
    text = {
        page.resolve(): re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for page in docs.rglob("*.md")
    }
    links = [(page, *link) for page in text for link in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", text[page])]
    assert links
    wrong = [
        (page.name, to, slug)
        for page, to, slug in links
        if slug not in slugs(text[(page.parent / to).resolve() if to else page])
    ]
    assert wrong == []


def slugs(text):
    """What GitHub makes of the headings of *text*."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
