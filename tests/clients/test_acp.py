"""`loopctl acp` driven by clients that others wrote: the command line `acpx`, and the conformance checker `acplint`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.integration.acp.editor import TOOLS, command
from tests.integration.cli.terminal import ROOT
from tests.peers.openai_server import OpenAIServer, calls, endless, text, words

LINT = os.path.join(os.path.dirname(sys.executable), "acplint")


class Acpx:
    """The command `acpx` with a home of its own; the agent leaves a second after its last prompt."""

    def __init__(self, clients, home, server, *options):
        (home / "edtools.py").write_text(TOOLS)
        self._home = home
        agent = " ".join(command(server, *options))
        self._argv = [str(clients / "node_modules/.bin/acpx"), "--agent", agent, "--ttl", "1"]
        self._environment = {
            "PATH": f"{clients / 'bin'}:/usr/bin:/bin",
            "HOME": str(home),
            "PYTHONPATH": f"{ROOT / 'src'}:{home}",
        }

    def begin(self, *arguments):
        return subprocess.Popen(
            [*self._argv, *arguments],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments):
        return self.end(self.begin(*arguments))

    @staticmethod
    def end(process):
        said, _ = process.communicate(timeout=50)
        return process.returncode, said


def stop_reasons(said):
    """The stop reasons in what `acpx --format json` has printed."""
    messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [found["stopReason"] for message in messages if "stopReason" in (found := message.get("result") or {})]


def test_acpx_cancels_a_prompt_and_goes_on(clients, tmp_path):
    with OpenAIServer([endless(), text("fresh")]) as server:
        acpx = Acpx(clients, tmp_path, server)
        assert acpx.run("sessions", "new")[0] == 0
        prompt = acpx.begin("--format", "json", "prompt", "slow")
        for line in prompt.stdout:
            if "token" in line:
                break
        assert server.open == 1, "there was nothing to stop"
        assert acpx.run("cancel")[0] == 0
        code, said = acpx.end(prompt)
        assert (code, stop_reasons(said)) == (0, ["cancelled"])
        server.wait_for(lambda s: s.disconnects == 1)
        code, said = acpx.run("--format", "json", "prompt", "again")
        assert (code, stop_reasons(said)) == (0, ["end_turn"])
        acpx.run("sessions", "close")


def test_ctrl_c_at_acpx_stops_the_run(clients, tmp_path):
    """It sends `session/cancel` and closes stdin in one breath."""
    with OpenAIServer(endless()) as server:
        acpx = Acpx(clients, tmp_path, server)
        prompt = acpx.begin("--format", "json", "exec", "slow")
        for line in prompt.stdout:
            if "token" in line:
                break
        assert server.open == 1, "there was nothing to stop"
        prompt.send_signal(signal.SIGINT)
        acpx.end(prompt)
        server.wait_for(lambda s: s.disconnects == 1)


@pytest.mark.parametrize(("policy", "is_there"), [("--approve-all", True), ("--deny-all", False)])
def test_acpx_answers_questions_by_its_policy(clients, tmp_path, policy, is_there):
    with OpenAIServer([calls(("touch", {"path": str(tmp_path / "file")})), text("done")]) as server:
        acpx = Acpx(clients, tmp_path, server, "--tools", "edtools:touch")
        _, said = acpx.run(policy, "--format", "json", "exec", "go")
        assert stop_reasons(said) == ["end_turn"]
        assert "session/request_permission" in said
        assert (tmp_path / "file").exists() is is_there


def test_acplint_finds_nothing_wrong_with_cancels_and_sessions(clients, tmp_path):
    """It is asked about nothing else: of the protocol's version it wants a text, where the schema has a number."""
    with OpenAIServer(lambda _: words(100, delay=0.02)) as server:
        agent = tmp_path / "agent"
        agent.write_text(f"#!/bin/sh\nexec {' '.join(command(server))}\n")
        agent.chmod(0o755)
        done = subprocess.run(
            [LINT, "--agent", agent, "--output", "json", "--categories", "cancel", "session_lifecycle"],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout[done.stdout.index("{") :])["results"]
    assert [result["status"] for result in results] == ["PASS"] * 9
