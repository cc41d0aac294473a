"""A tool that uses what makes it safe is stopped at every step, and leaves the state before or the state after."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from loopctl import Agent, Session, Tool, ToolContext
from loopctl.store import Ledger
from loopctl.testing import Scenario, ScriptedModel, call, cancel_everywhere
from loopctl.tools import TEMPORARY_PREFIX


@dataclass
class Place:
    """Where one run of the sweep has its effects."""

    folder: Path
    paid: int = 0
    temporary: list[Path] = field(default_factory=list)

    async def pay(self) -> str:
        await asyncio.sleep(1)
        self.paid += 1
        await asyncio.sleep(1)
        return "paid"

    async def buy(self, ctx: ToolContext) -> str:
        """Buy something, and write a receipt."""
        self.temporary.append(ctx.temp_dir)
        (ctx.temp_dir / "part").write_text("x")
        receipt: str = await ctx.once("buy", self.pay)
        with ctx.atomic_write(self.folder / "receipt.txt") as file:
            file.write("new ")
            await asyncio.sleep(1)
            file.write(receipt)
        return receipt

    def state(self) -> tuple[str, int, str]:
        """What the key is, how often was paid, what stands in the file."""
        effect = Ledger(self.folder / "store.sqlite").get("buy")
        return effect.state if effect else "free", self.paid, (self.folder / "receipt.txt").read_text()


@pytest.mark.parametrize("grace", [None, 0.0], ids=["default grace", "no grace"])
def test_a_stop_at_any_step_leaves_the_state_before_or_the_state_after_or_one_that_is_known_to_be_unknown(
    grace: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    places: list[Place] = []

    def buy_once() -> Session:
        place = Place(tmp_path / str(len(places)))
        place.folder.mkdir()
        (place.folder / "receipt.txt").write_text("old")
        places.append(place)
        model = ScriptedModel([call("buy", {})], "Bought.", "Yes.", "Yes.")
        tools = [Tool(place.buy, name="buy")]
        return Agent(model, tools=tools).session(store=place.folder / "store.sqlite")

    # Without a grace what waits for the disk is abandoned, and ends by itself.
    scenario = Scenario(buy_once, stragglers=grace is not None)
    sweep = cancel_everywhere(scenario, hands=["session"], sources=["loop"], timings=["before", "with"], graces=[grace])
    assert sweep.outcomes["cancelled"] > sweep.steps
    states = Counter(place.state() for place in places)
    assert states.keys() <= {
        ("free", 0, "old"),
        ("unknown", 0, "old"),
        ("unknown", 1, "old"),
        ("done", 1, "old"),
        ("done", 1, "new paid"),
    }
    assert len(states) == 5, "some of the states were never met"
    assert [path for place in places for path in place.temporary if path.exists()] == []
    assert list(tmp_path.rglob(f"{TEMPORARY_PREFIX}*")) == []
