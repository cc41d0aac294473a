"""kill -9 in the middle of a write leaves a whole file, and at most a marked one that the next write removes."""

from __future__ import annotations

import random
from pathlib import Path

from loopctl import CancelSignal, ToolContext
from loopctl.tools import TEMPORARY_PREFIX
from tests.integration.abandon.victims import Victims
from tests.integration.abandon.writer import WRITING, text

KILLS = 60


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path):
    chance = random.Random(4)
    kept = tmp_path / "kept"
    kept.mkdir()
    data = kept / "data.txt"
    data.write_text(text(0))
    died, left = [], 0
    with Victims(Path(__file__).with_name("writer.py"), tmp_path) as victims:
        for kill in range(KILLS):
            died.append(victims.kill(kill * 1000, after=chance.uniform(0, 0.02)))
            found = data.read_text()
            assert found == text(int(found[:6])), "half a file"
            others = [path.name for path in kept.iterdir() if path != data]
            assert len(others) <= 1, "what an earlier victim left was not swept"
            assert all(name.startswith(TEMPORARY_PREFIX) for name in others)
            left += len(others)
    assert died.count(WRITING) > KILLS / 2, "most kills must fall inside the work"
    assert left > KILLS / 4, "no kill fell between the beginning of a write and its end"
    with ToolContext("c1", "save", CancelSignal().token).atomic_write(data) as file:
        file.write("swept")
    assert [path.name for path in kept.iterdir()] == ["data.txt"]
