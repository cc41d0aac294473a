"""kill -9 in the middle of stored runs: what was told is there, the rest is interrupted, and the talk goes on."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from loopctl import Agent, SessionBusy
from loopctl.messages import UserMessage, find_problems
from loopctl.store import Store
from loopctl.testing import ScriptedModel
from tests.integration.abandon.chatter import ANSWERED, ASKED, CALLED, OPENING, TOLD
from tests.integration.abandon.victims import Victims

CHATTER = Path(__file__).with_name("chatter.py")
KILLS = 60


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def check(folder: Path) -> list[str]:
    """Look at what the dead have left, and give the outcomes, oldest first."""
    store = Store(folder / "store.db")
    runs = store.runs(limit=100_000)[::-1]
    outcomes = {run.id: run.outcome for run in runs}
    assert set(outcomes.values()) <= {"completed", "cancelled", "interrupted"}
    for line in lines(folder / "told.txt"):
        run_id, outcome = line.split()
        assert outcomes[run_id] == outcome
    begun = {f"{run.id}:{call.id}" for run in runs for call in run.calls if call.status != "not_started"}
    assert set(lines(folder / "sent.txt")) <= begun, "a tool had its effect, and nobody knows of it"
    session = store.session("chat")
    if session is None:
        assert runs == []
        return []
    assert session.pid is None
    assert find_problems(session.messages) == ()
    said = [message.text for message in session.messages if isinstance(message, UserMessage)]
    assert said == [run.input for run in runs if run.outcome == "completed" or run.is_adopted]
    return [run.outcome for run in runs]


@pytest.mark.parametrize(
    ("at", "outcome"),
    [(OPENING, None), (ASKED, None), (CALLED, "interrupted"), (ANSWERED, "interrupted"), (TOLD, "completed")],
    ids=["before it is opened", "when it is started", "in a tool", "after a tool", "when the end is told"],
)
def test_a_kill_at_each_step(tmp_path, at, outcome):
    with Victims(CHATTER, tmp_path) as victims:
        assert victims.kill(1, at=at) == at
        first = check(tmp_path)
        assert first[:1] in ([outcome], [] if outcome is None else [outcome], ["interrupted"] if at == ASKED else [])
        assert victims.kill(2, at=TOLD) == TOLD
    assert check(tmp_path)[-1] == "completed"


def test_kills_at_any_moment_lose_nothing_that_was_told(tmp_path):
    chance = random.Random(7)
    with Victims(CHATTER, tmp_path) as victims:
        died = [victims.kill(kill, after=chance.uniform(0, 0.25)) for kill in range(KILLS)]
        assert victims.kill(KILLS, at=TOLD) == TOLD
    outcomes = check(tmp_path)
    assert 0 not in died
    assert {"completed", "cancelled", "interrupted"} == set(outcomes)
    assert {ASKED, CALLED, ANSWERED, TOLD} <= set(died)
    assert outcomes.count("interrupted") > KILLS / 6
    assert outcomes[-1] == "completed"


def test_a_second_process_is_told_who_has_the_session_and_uses_the_file_beside_it(tmp_path):
    path = tmp_path / "store.db"
    seen = []

    async def beside() -> None:
        agent = Agent(ScriptedModel("Yes."))
        live, session = Store(path).runs(1)[0], Store(path).session("chat")
        seen.append((live.outcome, live.record, len(live.calls)))
        with pytest.raises(SessionBusy, match=rf"chat is open in process {session.pid}: close it there"):
            await agent.session(store=path, id="chat").open()
        assert live.pid == session.pid != os.getpid()
        other = agent.session(store=path, id="other")
        await other.run("hi")
        await other.aclose()

    with Victims(CHATTER, tmp_path) as victims:
        assert victims.kill(1, at=ANSWERED, look=lambda: asyncio.run(beside())) == ANSWERED
    assert seen == [("running", None, 1)]
    assert [(run.session_id, run.outcome) for run in Store(path).runs()] == [
        ("other", "completed"),
        ("chat", "interrupted"),
    ]
