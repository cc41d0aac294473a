"""The table itself: it is complete, it says what its handlers do, and the page in the docs is printed from it."""

from __future__ import annotations

import runpy
import typing
from dataclasses import dataclass, is_dataclass
from itertools import product
from pathlib import Path

import pytest

from loopctl.brain import (
    TABLE,
    Brain,
    CancelRequested,
    Effect,
    Finish,
    Input,
    Limits,
    ModelFailed,
    ModelReplied,
    Phase,
    Started,
)
from loopctl.errors import IllegalTransition, UsageError
from loopctl.messages import AssistantMessage, UserMessage
from loopctl.record import CancelReason, Checkpoint, Outcome

INPUTS = typing.get_args(Input)
ROOT = Path(__file__).parent.parent.parent


def test_every_pair_of_a_phase_and_an_input_has_a_row():
    assert set(TABLE) == set(product(Phase, INPUTS))


@pytest.mark.parametrize("phase", Phase)
def test_a_cancel_ends_every_phase_that_is_not_terminal_and_no_other(phase):
    moves = TABLE[phase, CancelRequested].moves

    assert [(move.to, move.last) for move in moves] == ([] if phase.is_terminal else [(Phase.CANCELLED, Finish)])


def test_nothing_leads_out_of_a_terminal_phase():
    assert [key for key, row in TABLE.items() if key[0].is_terminal and row.moves] == []


def test_every_terminal_phase_bears_the_name_of_an_outcome_and_a_finish_leads_there():
    assert {phase.value for phase in Phase if phase.is_terminal} == set(typing.get_args(Outcome)) - {
        "interrupted"  # of a process that died, which only a store tells
    }
    assert all((move.last is Finish) == move.to.is_terminal for row in TABLE.values() for move in row.moves)


def test_every_phase_can_be_reached():
    reached = {move.to for row in TABLE.values() for move in row.moves}

    assert reached | {Phase.READY} == set(Phase)


def test_inputs_and_effects_are_frozen_data():
    for kind in (*INPUTS, *typing.get_args(Effect)):
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen


def test_the_page_of_states_is_what_the_table_says():
    script = runpy.run_path(str(ROOT / "scripts" / "states.py"))

    assert script["main"](["--check"]) == 0, "run: python scripts/states.py"


def test_the_script_notices_a_page_that_is_out_of_date(tmp_path, capsys):
    script = runpy.run_path(str(ROOT / "scripts" / "states.py"))
    script["main"].__globals__["PAGE"] = tmp_path / "states.md"

    assert script["main"](["--check"]) == 1
    assert "run python scripts/states.py" in capsys.readouterr().err
    assert script["main"]([]) == 0
    assert script["main"](["--check"]) == 0
    (tmp_path / "states.md").write_text("edited by hand")
    assert script["main"](["--check"]) == 1


@dataclass(frozen=True)
class Invented:
    """No input of the brain."""


@pytest.mark.parametrize("fact", [None, "cancel", Invented(), Started])
def test_what_is_no_input_at_all_is_refused_by_name(fact):
    with pytest.raises(IllegalTransition, match=rf"{type(fact).__name__} is not an input .*READY"):
        Brain().step(fact)


def test_a_completed_run_is_the_only_one_with_an_output():
    def end(fact):
        brain = Brain(limits=Limits(1))
        brain.step(Started((), UserMessage("hi")))
        return brain.step(fact)

    cancel = CancelRequested(CancelReason(), Checkpoint.STREAM_EVENT)

    assert end(ModelReplied(AssistantMessage(()), "stop")) == (Finish("completed", ""),)
    assert end(ModelFailed("no")) == (Finish("failed", None),)
    assert end(cancel) == (Finish("cancelled", None),)


@pytest.mark.parametrize("max_turns", [0, -1, True, 1.0, "3", None])
def test_a_limit_under_which_nothing_can_run_is_refused(max_turns):
    with pytest.raises(UsageError, match="max_turns"):
        Limits(max_turns)


def test_the_default_is_fifty_turns():
    assert Limits() == Limits(50)


def test_a_brain_shows_where_it_is():
    brain = Brain()
    brain.step(Started((), UserMessage("hi")))

    assert repr(brain) == "<Brain AWAITING_MODEL turn=1>"
