"""`make chat` at a terminal: what reaches make, and what does not."""

from __future__ import annotations

import shlex
import shutil
import sys

import pytest

from tests.integration.cli.terminal import COMMAND, CTRL_C, CTRL_D, ROOT, Terminal
from tests.peers.openai_server import OpenAIServer, endless

PROMPT = r"(?m)^>"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_a_visit_in_which_a_reply_was_stopped_ends_make_with_0(tmp_path):
    wrapper = [sys.executable, str(ROOT / "scripts" / "foreground.py")]
    with OpenAIServer(endless(0.005)) as server:
        line = shlex.join([*wrapper, *COMMAND, "chat", "--base-url", server.url, "--model", "test"])
        (tmp_path / "Makefile").write_text(f"chat:\n\t@{line}\n")
        with Terminal("chat", command=[shutil.which("make")], cwd=tmp_path) as terminal:
            terminal.expect(PROMPT)
            terminal.send("hi\r")
            terminal.expect("token token")
            terminal.send(CTRL_C)
            terminal.expect("■ stopped by Ctrl-C")
            terminal.expect(PROMPT)
            terminal.send(CTRL_D)
            assert terminal.wait() == 0
            assert "***" not in terminal.text


def test_make_chat_runs_in_the_foreground():
    assert "scripts/foreground.py $(BIN)/loopctl chat" in (ROOT / "Makefile").read_text("utf-8")
