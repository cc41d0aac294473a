"""The leak check catches what it is for: tests that leak on purpose, run by a pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LEAKY = """
import asyncio, gc, os, signal, socket, subprocess, sys, threading, time
import pytest

keep = []
release = threading.Event()

def test_clean():
    async def main():
        task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        left, right = socket.socketpair()
        left.close(), right.close()
        thread = threading.Thread(target=lambda: None)
        thread.start()
        await task
    asyncio.run(main())
    subprocess.run([sys.executable, "-c", ""])

def test_slow_to_end():
    threading.Thread(target=time.sleep, args=(0.2,)).start()

def test_thread():
    thread = threading.Thread(target=release.wait, name="stuck")
    thread.start()

def test_daemon():
    threading.Thread(target=release.wait, name="stuck daemon", daemon=True).start()

def test_child():
    keep.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_zombie():
    pid = os.fork()
    if pid == 0:
        os._exit(0)

def test_descriptor():
    keep.append(socket.socketpair())

def test_open_file_is_closed_too_late():
    open(os.devnull)

def test_handler():
    signal.signal(signal.SIGTERM, lambda *_: None)

def test_task():
    loop = asyncio.new_event_loop()
    async def forever():
        await loop.create_future()
    keep.append(loop.create_task(forever(), name="stuck task"))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

def test_loop():
    keep.append(asyncio.new_event_loop())

def test_destroyed():
    async def main():
        async def forever():
            await asyncio.Event().wait()
        asyncio.get_running_loop().create_task(forever())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
    asyncio.run(main())

def test_never_retrieved():
    async def main():
        async def fail():
            raise ValueError("nobody asks")
        asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    asyncio.run(main())

def test_never_retrieved_but_expected(loop_errors):
    test_never_retrieved()
    gc.collect()
    assert "never retrieved" in loop_errors[0]

def test_never_awaited():
    asyncio.sleep(0)

def test_thread_raises():
    def fail():
        raise ValueError("in a thread")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()

@pytest.mark.shares("threads")
def test_allowed_thread():
    threading.Thread(target=release.wait, daemon=True).start()

def test_last():
    release.set()
    for child in keep:
        if isinstance(child, subprocess.Popen):
            child.kill()
"""

CAUGHT = {
    "test_thread": "stuck",
    "test_daemon": "stuck daemon",
    "test_child": "children",
    "test_zombie": "children",
    "test_descriptor": "socket:",
    "test_open_file_is_closed_too_late": "unclosed file",
    "test_handler": "SIGTERM",
    "test_task": "stuck task",
    "test_loop": "event_loop|EventLoop",
    "test_destroyed": "was destroyed but it is pending",
    "test_never_retrieved": "never retrieved",
    "test_never_awaited": "never awaited",
    "test_thread_raises": "in a thread",
}
FINE = {
    "test_clean",
    "test_slow_to_end",
    "test_never_retrieved_but_expected",
    "test_allowed_thread",
    "test_last",
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], dict[str, str]]:
    """The names of the passed tests without an error, and the text about each of the others."""
    folder = tmp_path_factory.mktemp("leaky")
    (folder / "test_leaky.py").write_text(LEAKY)
    (folder / "conftest.py").write_text(
        (ROOT / "tests" / "conftest.py").read_text() + "import tests.leaks\ntests.leaks.PATIENCE = 0.6\n"
    )
    options = [
        "-c",
        str(ROOT / "pyproject.toml"),
        f"--rootdir={folder}",
        "--timeout=50",
        "-rp",
        "--show-capture=no",
        "--tb=long",
        "--color=no",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder / "test_leaky.py")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    about = {
        match[1]: match[2]
        for match in re.finditer(
            r"^_+ (?:ERROR at teardown of )?(test_\w+) _+$(.*?)(?=^_{5}|^={5})", done.stdout, re.MULTILINE | re.DOTALL
        )
    }
    passed = set(re.findall(r"^PASSED \S+::(\w+)", done.stdout, re.MULTILINE))
    return passed - about.keys(), about


@pytest.mark.parametrize("name", CAUGHT)
def test_a_leak_fails_its_test_and_is_named(outcome, name):
    _, about = outcome
    assert re.search(CAUGHT[name], about.get(name, "nothing was said"))


def test_what_cleans_up_passes_and_no_leak_is_blamed_on_a_later_test(outcome):
    passed, about = outcome
    assert passed == FINE
    assert about.keys() == CAUGHT.keys()
