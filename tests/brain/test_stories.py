"""The golden transcripts: each tells one story of a run, and the brain must act it word by word.

After a change that you understand, write them anew with `LOOPCTL_REWRITE=1 pytest tests/brain/test_stories.py`, and
read the diff before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopctl.brain import TABLE
from tests.brain.story import play

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_brain_acts_the_story_word_by_word(path):
    told = path.read_text(encoding="utf-8")
    acted, _ = play(told)
    if os.environ.get("LOOPCTL_REWRITE"):
        path.write_text(acted, encoding="utf-8")
    else:
        assert acted == told


def test_the_stories_make_every_move_of_the_table_and_no_other():
    listed = {(phase, kind, move.to, move.last) for (phase, kind), row in TABLE.items() for move in row.moves}
    steps = [step for path in SCENARIOS for step in play(path.read_text(encoding="utf-8"))[1].log]
    made = {(step.before, type(step.fact), step.after, type(step.effects[-1])) for step in steps if step.effects}

    assert made == listed


def test_a_story_that_tells_something_else_is_noticed():
    told = 'brain\n----\n-> READY, turn 0\n\nstarted "hi"\n----\nFinish failed null\n'

    acted, _ = play(told)

    assert acted != told
    assert "CallModel turn 1" in acted
