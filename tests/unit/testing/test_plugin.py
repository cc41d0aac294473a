"""The pytest plug-in, in projects of its own: what it offers, and that it is not felt by those who do not ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = """
import asyncio, threading, time
import pytest

from loopctl import Agent
from loopctl.testing import Scenario, ScriptedModel, VirtualLoop

gate = threading.Event()

@pytest.fixture
def seconds():
    return 500

@pytest.mark.virtual_time
async def test_hours_pass_at_once(seconds):
    await asyncio.sleep(seconds)
    assert VirtualLoop.running().time() == seconds

@pytest.mark.virtual_time(limit=10)
async def test_a_limit_is_kept(seconds):
    await asyncio.sleep(seconds)

@pytest.mark.virtual_time
def test_a_plain_function_is_refused():
    pass

@pytest.mark.virtual_time
@pytest.mark.parametrize("number", [1, 2])
async def test_other_marks_work(number):
    assert number

def session():
    return Agent(ScriptedModel("hello", repeat=True)).session()

def test_the_sweep_is_short_by_default(cancel_everywhere):
    assert cancel_everywhere(session).stops < 400

def test_the_sweep_is_narrowed(cancel_everywhere):
    assert cancel_everywhere(session, hands=["handle"], sources=["loop"], timings=["at"]).stops < 40

def test_a_broken_promise_is_a_failure(cancel_everywhere):
    def never(stopped):
        assert False, "as I said"
    cancel_everywhere(Scenario(session, check=never))

def test_nothing_is_left(no_leaks):
    threading.Thread(target=time.sleep, args=(0.1,)).start()

def test_a_thread_is_left(no_leaks):
    threading.Thread(target=gate.wait, name="forgotten").start()

@pytest.mark.parametrize("no_leaks", [["threads"]], indirect=True)
def test_a_thread_is_allowed(no_leaks):
    threading.Thread(target=gate.wait, name="allowed").start()

def test_asyncio_complains(no_leaks):
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    asyncio.run(main())

def test_a_failed_test_is_not_looked_at(no_leaks):
    threading.Thread(target=gate.wait, name="of the failed one").start()
    assert False

def test_last():
    gate.set()
"""
PLAIN = """
def test_nothing():
    import sys
    assert "loopctl.testing.plugin" in sys.modules
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert loaded.isdisjoint({"asyncio", "pydantic", "msgspec"})
    assert not [name for name in sys.modules if name.startswith("loopctl.") and "testing" not in name]
"""


def run_project(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_project.py").write_text(text)
    paths = [str(Path(place)) for place in sys.path if place.endswith("src")]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "pytest", "-p", "loopctl.testing.plugin", "-p", "no:cacheprovider", "-W", "error"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), "--strict-markers", "-rA", "--show-capture=no", "--color=no", *options],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """How each test of the project ended, and all that was said."""
    done = run_project(tmp_path_factory.mktemp("project"), PROJECT)
    found = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+(?:\[\w+\])?)", done.stdout, re.MULTILINE)
    return {name: how for how, name in sorted(found, reverse=True)}, done.stdout + done.stderr


def test_each_part_does_what_it_is_for(outcomes: tuple[dict[str, str], str]) -> None:
    ended, text = outcomes
    failed = {name for name, how in ended.items() if how != "PASSED"}
    assert failed == {
        "test_a_limit_is_kept",
        "test_a_plain_function_is_refused",
        "test_a_broken_promise_is_a_failure",
        "test_a_thread_is_left",
        "test_asyncio_complains",
        "test_a_failed_test_is_not_looked_at",
    }, text
    assert ended["test_other_marks_work[2]"] == "PASSED"


@pytest.mark.parametrize(
    "said",
    [
        "time limit: the next timer is at the virtual time 500 s",
        "is for an async def: this one waits for nothing",
        r"Stop\(0, .*\): as I said",
        "the test left something behind:\n  threads: forgotten",
        "asyncio logged: Exception in callback",
    ],
)
def test_what_is_wrong_is_said(outcomes: tuple[dict[str, str], str], said: str) -> None:
    assert re.search(said, outcomes[1]), outcomes[1]


def test_a_failed_test_is_blamed_for_its_failure_only(outcomes: tuple[dict[str, str], str]) -> None:
    assert "of the failed one" not in re.sub(r"name=\"of the failed one\"", "", outcomes[1])


def test_a_project_that_does_not_ask_gets_nothing(tmp_path: Path) -> None:
    done = run_project(tmp_path, PLAIN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout


def test_sweeps_are_thorough_on_demand(tmp_path: Path) -> None:
    text = PROJECT.replace("stops < 400", "stops > 400")
    done = run_project(tmp_path, text, "--thorough-sweeps", "-k", "short_by_default")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_finds_the_plug_in_by_itself() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"loopctl": "loopctl.testing.plugin"}
