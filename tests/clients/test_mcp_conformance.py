"""The published MCP conformance suite, asked about our server and about our client, by both protocols."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conformance import conformance_tools
from tests.integration.cli.terminal import COMMAND, ROOT

FOLDER = Path(__file__).with_name("conformance")
EXPECTED = FOLDER / "expected-failures.yml"
TOOLS = ",".join(f"conformance_tools:{name}" for name in conformance_tools.__all__)
VERSIONS = ["2025-11-25", "2026-07-28"]
SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}
"""Those for a client; see `expected-failures.yml` for why none begins with auth/."""


@pytest.fixture
def suite(clients, tmp_path):
    """Runs the suite's command; gives its exit code and what it printed."""
    program = [clients / "bin/node", clients / "node_modules/@modelcontextprotocol/conformance/dist/index.js"]

    def run(*words):
        done = subprocess.run(
            [*program, *words], env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=55, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(FOLDER)))}


@pytest.mark.parametrize("version", VERSIONS)
def test_our_server_passes_what_it_can(suite, version):
    """All scenarios for servers, each of which starts its own clients."""
    command = [*COMMAND, "mcp", "serve", TOOLS, "--http", "0"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            (url,) = re.findall(r"http://\S+", process.stderr.readline())
            code, said = suite(
                *("server", "--url", url, "--suite", "all", "--spec-version", version, "--expected-failures", EXPECTED)
            )
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143
    assert code == 0, said
    assert int(re.findall(r"Total: (\d+) passed", said)[0]) >= 50


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, name) for version in VERSIONS for name in SCENARIOS[version]]
)
def test_our_client_passes_what_it_can(suite, version, scenario):
    command = shlex.join([sys.executable, str(FOLDER / "conformance_client.py")])
    scenario_of = ("--scenario", scenario, "--spec-version", version)
    code, said = suite("client", "--command", command, *scenario_of, "--expected-failures", EXPECTED)
    assert code == 0, said


@pytest.mark.parametrize("version", VERSIONS)
def test_no_scenario_for_clients_is_left_out_but_those_of_oauth(suite, version):
    _, listed = suite("list", "--client", "--spec-version", version)
    names = re.findall(r"^  - (\S+) ", listed, re.MULTILINE)
    assert [name for name in names if not name.startswith("auth/")] == SCENARIOS[version]
