"""kill -9 of the command while a built-in tool runs: no half-written file, and nothing that it started is left.

The victims are the real command with a real server on loopback, forked with everything loaded, so that two hundred of
them take seconds; a few are started as a shell would.
"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from loopctl import CancelSignal, ToolContext
from loopctl.builtin import builtin_tools
from loopctl.tools import TEMPORARY_PREFIX
from tests.integration.abandon.commander import INSIDE, VICTIM
from tests.integration.abandon.victims import Moments, Victims
from tests.integration.cli.terminal import COMMAND, clean_environment
from tests.integration.processes.alive import is_alive, pids_in, until
from tests.peers.openai_server import OpenAIServer, calls, text

COMMANDER = Path(__file__).with_name("commander.py")
KILLS = {"write_file": 70, "edit_file": 70, "run_command": 60}
LATEST = {"write_file": 0.02, "edit_file": 0.02, "run_command": 0.12}
"""Seconds after the beginning of the call in which the first kill may fall."""
LINES = 15_000
JOBS = "echo $$ >> pids; (trap '' TERM; sleep 300) & echo $! >> pids; setsid sleep 300 & echo $! >> pids; wait"


def whole(version: int) -> str:
    return f"version {version:06}\n" * LINES


def edited(version: int) -> str:
    return f"version {version:06}\n" + "a line that stays\n" * LINES


class Play:
    """A server that has the victims call one tool, each time with another version."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.data = folder / "kept" / "data.txt"
        self.form = edited if name == "edit_file" else whole
        self.data.parent.mkdir()
        self.data.write_text(self.form(0))
        self.server = OpenAIServer(self._reply)
        self._before: tuple[int, set[str]] = (0, set())

    def version(self) -> int:
        """Which version is there; it must be whole."""
        found = self.data.read_text()
        version = int(found[8:14])
        assert found == self.form(version), "half a file"
        return version

    def pids(self) -> list[int]:
        """The processes that commands have told of."""
        return pids_in(self.data.parent / "pids")

    def marked(self) -> set[str]:
        """The temporary files that are there."""
        return {path.name for path in self.data.parent.iterdir() if path.name.startswith(TEMPORARY_PREFIX)}

    def note(self) -> None:
        """Remember what is there before the next victim."""
        self._before = len(self.pids()), self.marked()

    def wait_until_begun(self) -> None:
        """Block until one more command runs, or one more file is written: on a busy machine that takes its time."""
        pids, marked = self._before
        if self.name == "run_command":
            until(lambda: len(self.pids()) > pids)
        end = time.monotonic() + 0.1  # a write may have been over when this began
        while self.name != "run_command" and self.marked() <= marked and time.monotonic() < end:
            time.sleep(0)

    def _reply(self, record):
        last = record.body["messages"][-1]
        if last["role"] == "tool":
            return text("done.")
        number = int(last["content"].split()[1])
        if self.name == "run_command":
            return calls(("run_command", {"command": JOBS}))
        if self.name == "write_file":
            return calls(("write_file", {"path": "data.txt", "content": whole(number)}))
        old, new = (f"version {version:06}" for version in (self.version(), number))
        return calls(("edit_file", {"path": "data.txt", "old": old, "new": new}))


def descendants(folder: Path) -> list[int]:
    """The processes that were started by a victim of *folder*, by an inherited variable; the dead are not counted."""
    sign = f"{VICTIM}={folder}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and sign in (entry / "environ").read_bytes() and is_alive(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at processes by /proc")
@pytest.mark.timeout(180)  # on a machine that has more to do
@pytest.mark.parametrize("name", KILLS)
def test_a_killed_command_leaves_whole_files_and_no_process(tmp_path, name):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    moments = Moments(random.Random(seed), LATEST[name])
    play = Play(name, tmp_path)
    inside, left, versions = 0, 0, set()
    with play.server as server:
        (tmp_path / "url").write_text(server.url)
        with Victims(COMMANDER, tmp_path) as victims:
            for kill in range(1, KILLS[name] + 1):
                look = play.wait_until_begun if kill % 2 else None
                play.note()
                is_inside = victims.kill(kill, after=moments.next(), look=look) == INSIDE
                moments.learn(is_inside=is_inside)
                inside += is_inside
                versions.add(play.version())
                assert len(play.marked()) <= 1, "what an earlier victim left was not swept"
                left += len(play.marked())
    until(lambda: not descendants(tmp_path))
    assert [pid for pid in play.pids() if is_alive(pid)] == []
    print(f"{inside} of {KILLS[name]} inside the tool, {left} in the middle of the writing, {len(versions)} versions")
    assert inside > KILLS[name] / 2, f"most kills must fall inside the tool, not {inside}"
    if name == "run_command":
        assert len(play.pids()) >= KILLS[name] / 2, "too few commands had begun"
    else:
        assert left > KILLS[name] / 10, f"too few kills fell in the middle of the writing: {left}"
        assert len(versions) > 1, "no write ever came to its end"
    (write,) = builtin_tools(play.data.parent, ["write_file"])
    write("swept.txt", "x", ctx=ToolContext("c1", "write_file", CancelSignal().token))
    assert {path.name for path in play.data.parent.iterdir()} - {"pids"} == {"data.txt", "swept.txt"}


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at processes by /proc")
def test_a_command_that_a_shell_would_start_leaves_no_process_either(tmp_path):
    play = Play("run_command", tmp_path)
    pids = play.data.parent / "pids"
    with play.server as server:
        options = ["--base-url", server.url, "--model", "test", "--workspace", str(play.data.parent), "--yes"]
        started = [
            subprocess.Popen(
                [*COMMAND, "run", *options, "kill 1"],
                env=clean_environment(**{VICTIM: str(tmp_path)}),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        until(lambda: len(pids_in(pids)) == 6)
        for victim in started:
            victim.kill()
            victim.wait()
    until(lambda: not descendants(tmp_path))
    assert [pid for pid in pids_in(pids) if is_alive(pid)] == []
