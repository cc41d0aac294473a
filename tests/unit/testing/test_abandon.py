"""What the checker is told, what it tells, and that it leaves nothing behind; the faults are in integration/checker."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path

import pytest

from loopctl import ToolContext, UsageError, tool
from loopctl.testing import AbandonFailed, abandon_everywhere, check_abandon


async def save(path: str, text: str = "whole") -> None:
    """Save a text, half by half."""
    with open(path, "w") as file:
        file.write(text[:2])
        file.flush()
        await asyncio.sleep(0)
        file.write(text[2:])


def save_whole(path: str, ctx: ToolContext) -> None:
    with ctx.atomic_write(path) as file:
        file.write("whole")


async def append(path: str) -> None:
    with open(path, "a") as file:
        file.write("a line\n")
    await asyncio.sleep(0)


def test_a_tool_that_is_not_safe_fails_the_test_that_checks_it():
    with pytest.raises(AbandonFailed) as failed:
        abandon_everywhere(save, {"path": "a.txt"}, modes=["cancel"])
    report = failed.value.report
    (finding,) = report.findings
    assert (finding.how, finding.kind, finding.subject) == ("stopped", "half", "a.txt")
    assert finding.file == __file__
    line = save.__code__.co_firstlineno + 5
    at = f"tests/unit/testing/test_abandon.py:{line - 5}"
    assert finding.line == line
    assert str(failed.value).strip().splitlines() == [
        "a.txt is half written: the first 2 of 5 bytes",
        f"  stopped at tests/unit/testing/test_abandon.py:{line}  await asyncio.sleep(0)",
        "  mend: write it whole or not at all: with ctx.atomic_write(path) as file: ...",
        "",
        f"save ({at}) is not safe to abandon: 1 fault; stopped at 1 point, in {report.seconds:.1f} s",
    ]


def test_a_safe_tool_gives_a_report_with_nothing_found():
    report = abandon_everywhere(tool(save_whole), {"path": "a.txt"})
    assert report.is_safe
    assert report.kills >= 2
    assert "save_whole" in str(report)
    assert "is safe to abandon" in str(report)
    assert json.loads(json.dumps(report.to_json()))["is_safe"] is True


def test_a_function_of_the_test_itself_is_checked_with_what_it_closes_over():
    lock = asyncio.Lock()

    async def hold() -> None:
        await lock.acquire()
        await asyncio.sleep(0)
        lock.release()

    report = check_abandon(hold, modes=["cancel"])
    assert ("lock", "lock") in {(finding.kind, finding.subject) for finding in report.findings}
    assert ("hangs", "") in {(finding.kind, finding.subject) for finding in report.findings}
    assert not lock.locked(), "nothing of the tool runs here"


def test_the_folder_begins_with_the_files_and_ends_as_before_or_after(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    for files in (tmp_path, {"a.txt": b"old"}):
        report = check_abandon(save, {"path": "a.txt"}, files=files, modes=["cancel"])
        assert [finding.what for finding in report.findings] == ["a.txt is half written: the first 2 of 5 bytes"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_what_does_not_matter_is_not_told():
    assert check_abandon(save, {"path": "a.log"}, ignore="*.log", modes=["cancel"]).is_safe


def test_the_author_can_declare_a_state():
    def accept(folder: Path) -> bool:
        return (folder / "a.txt").read_text() == "wh"

    assert check_abandon(save, {"path": "a.txt"}, accept=accept, modes=["cancel"]).is_safe


def test_an_effect_that_may_be_there_twice_is_no_fault_if_the_author_says_so():
    arguments = {"path": "book.txt"}
    assert [finding.kind for finding in check_abandon(append, arguments, modes=["cancel"]).findings] == ["twice"]
    assert check_abandon(append, arguments, modes=["cancel"], may_repeat=True).is_safe


def test_what_differs_from_run_to_run_is_said_to_be_uncompared():
    async def stamp(path: str, ctx: ToolContext) -> None:
        await asyncio.sleep(0)
        with ctx.atomic_write(path) as file:
            file.write(os.urandom(8).hex())

    report = check_abandon(stamp, {"path": "a.txt"}, modes=["cancel"])
    assert report.is_safe
    assert "a.txt differs from one whole run to the next" in report.notes[0]


def test_of_many_points_some_are_taken_and_that_is_said():
    async def wait_often() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    report = check_abandon(wait_often, modes=["cancel"], limit=5)
    assert report.stops == 5
    assert "of its 50 points, 5 were stopped at" in report.notes[0]


def test_a_plain_function_that_never_asks_cannot_be_stopped_and_that_is_said():
    def work() -> None:
        pass

    report = check_abandon(work)
    assert report.stops == 0
    assert report.kills
    assert "never asks" in report.notes[0]


def test_a_path_outside_of_the_folder_is_pointed_out():
    async def look(path: str) -> None:
        await asyncio.sleep(0)

    assert "outside" in check_abandon(look, {"path": "/etc/hosts"}, modes=["cancel"]).notes[-1]


def test_a_tool_with_a_process_of_its_own_is_only_killed():
    report = check_abandon(tool(save, isolation="process"), {"path": "a.txt"})
    assert report.stops == 0
    assert {finding.how for finding in report.findings} == {"killed"}
    assert "which a stop kills" in report.notes[0]


def test_points_in_tasks_of_the_tool_are_points_of_the_tool():
    async def part() -> None:
        await asyncio.sleep(0)

    async def whole() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(part())

    assert check_abandon(whole, modes=["cancel"]).stops == 4


def test_the_lines_of_a_library_are_points_if_it_is_named():
    async def look() -> None:
        await asyncio.sleep(0)

    assert check_abandon(look, modes=["cancel"]).stops == 1
    inside = check_abandon(look, modes=["kill"], packages=["asyncio"])
    assert inside.kills > check_abandon(look, modes=["kill"]).kills
    with pytest.raises(UsageError, match="no_such_package"):
        check_abandon(look, packages=["no_such_package"])


def test_it_may_be_called_while_a_loop_runs():
    async def main():
        return check_abandon(save, {"path": "a.txt"}, modes=["cancel"])

    assert not asyncio.run(main()).is_safe


def test_nothing_is_left_of_a_check(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check_abandon(save, {"path": "a.txt"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ({}, {}, "path: missing"),
        ({"path": "no/such/folder"}, {}, "FileNotFoundError"),
        ({"path": "a"}, {"modes": ["stop"]}, "'cancel', 'kill', or both"),
        ({"path": "a"}, {"modes": []}, "'cancel', 'kill', or both"),
        ({"path": "a"}, {"files": "/no/such/folder"}, "is not a folder"),
        ({"path": "a"}, {"limit": 0}, "from 1 on"),
        ({"path": "a"}, {"grace": -1}, "seconds"),
        ({"path": "a"}, {"mode": "kill"}, "no option mode: there are files, modes"),
    ],
)
def test_what_cannot_be_checked_is_said(arguments, options, words):
    with pytest.raises(UsageError, match=words):
        check_abandon(save, arguments, **options)


def test_a_tool_that_does_not_end_by_itself_cannot_be_checked():
    async def hang() -> None:
        await asyncio.sleep(60)

    with pytest.raises(UsageError, match=r"did not end within 0.2 s at test_abandon.py"):
        check_abandon(hang, patience=0.2)
