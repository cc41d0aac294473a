"""Several processes that use one store do each thing once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loopctl import EffectUnknown
from loopctl.store import Ledger
from tests.integration.abandon.payer import INTENDED
from tests.integration.abandon.victims import Victims

RACER = """
import os, sys
from loopctl.store import Ledger
folder, name = sys.argv[1:]
ledger = Ledger(f"{folder}/store.sqlite")
def pay():
    with open(f"{folder}/paid.txt", "a") as file:
        file.write(f"{key}\\n")
    return name
sys.stdin.readline()
for key in map(str, range(20)):
    print(ledger.once(key, pay))
"""


def test_processes_that_race_for_the_same_keys_do_each_once_and_agree(tmp_path):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two", "three")
    ]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    told = {racer.communicate(timeout=50)[0] for racer in racers}
    assert len(told) == 1
    assert sorted((tmp_path / "paid.txt").read_text().split(), key=int) == [str(key) for key in range(20)]
    assert set(told.pop().split()) <= {"one", "two", "three"}


def test_a_key_that_a_living_process_holds_is_waited_for_and_that_of_a_dead_one_is_unknown(tmp_path):
    ledger = Ledger(tmp_path / "store.sqlite")
    caught = []

    def ask():
        with pytest.raises(EffectUnknown) as error:
            ledger.once("1/0", lambda: "twice")
        caught.append(error)

    waiting = threading.Thread(target=ask)

    def look():
        waiting.start()
        time.sleep(0.2)
        assert waiting.is_alive()
        assert ledger.get("1/0").state == "in_progress"

    with Victims(Path(__file__).with_name("payer.py"), tmp_path) as victims:
        victims.kill(1, at=INTENDED, look=look)
    waiting.join()
    assert len(caught) == 1
    assert ledger.get("1/0").state == "unknown"


FORKING = """
import os, sys, time
from loopctl.store import Ledger
path = sys.argv[1]
def half():
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        state = Ledger(path).get("key").state
        with open(f"{path}.new", "w") as file:
            file.write(state)
        os.rename(f"{path}.new", f"{path}.seen")
    os._exit(1)
Ledger(path).once("key", half)
"""


def test_a_fork_does_not_hold_what_its_parent_held(tmp_path):
    """The parent dies in its function, and a child that it forked there lives on and looks."""
    path = tmp_path / "store.sqlite"
    parent = subprocess.run([sys.executable, "-c", FORKING, str(path)], check=False)
    assert parent.returncode == 1
    assert Ledger(path).get("key").state == "unknown"
    seen = tmp_path / "store.sqlite.seen"
    until = time.monotonic() + 30
    while not seen.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert seen.read_text() == "unknown"


BUSY = """
import sys
from loopctl.store import Ledger
ledger = Ledger(sys.argv[1])
def live():
    ledger.unknown()
    ledger.once("other", list)
    print("ready", flush=True)
    sys.stdin.readline()
    return "paid"
ledger.once("live", live)
"""


def time_out():
    raise TimeoutError


def test_a_process_that_looks_around_while_it_does_something_still_holds_it(tmp_path):
    """The system drops the locks of a process with any descriptor of the file that it closes."""
    ledger = Ledger(tmp_path / "store.sqlite")
    with pytest.raises(TimeoutError):
        ledger.once("dead", time_out)
    busy = subprocess.Popen(
        [sys.executable, "-c", BUSY, ledger.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert busy.stdout.readline() == "ready\n"
    assert [ledger.get(key).state for key in ("dead", "other", "live")] == ["unknown", "done", "in_progress"]
    busy.communicate("go\n", timeout=50)
    assert ledger.get("live").result == "paid"
