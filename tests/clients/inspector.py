"""The official MCP inspector, as a client of `loopctl mcp serve`: its command line, and the server of its page."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time

from tests.clients.sdk import stdio_command
from tests.integration.cli.terminal import ROOT
from tests.integration.mcp.places import PEERS, Peer

__all__ = ["ERAS", "Inspector"]

ERAS = ("legacy", "modern")
PATIENCE = 20


class Inspector:
    """The inspector with a home of its own, and the tools of `mcp_served` with their log."""

    def __init__(self, clients, home):
        self._program = str(clients / "node_modules/.bin/mcp-inspector")
        self._home = home
        self.peer = Peer(home)
        self._served = {"PYTHONPATH": f"{ROOT / 'src'}:{PEERS}", **self.peer.env}
        self._environment = {
            "PATH": f"{clients / 'bin'}:/usr/bin:/bin",
            "HOME": str(home),
            "MCP_AUTO_OPEN_ENABLED": "false",
            "MCP_INSPECTOR_SECRET_STORE": "memory",
            # Free ones: what else runs on this machine may be an inspector too. The first cannot be 0.
            "CLIENT_PORT": str(_free_port()),
            "MCP_SANDBOX_PORT": "0",
            "MCP_APP_ORIGIN_PORT": "0",
        }

        self._started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._started:
            with process:
                process.terminate()

    def wait_for(self, line):
        """Wait until a tool has logged *line*."""
        end = time.monotonic() + PATIENCE
        while line not in self.peer.lines():
            assert time.monotonic() < end, f"nobody logged {line!r}, but: {self.peer.lines()}"
            time.sleep(0.01)

    def begin(self, era, url, *arguments):
        """Start its command line for the server at *url*, or for one of its own if that is None."""
        settings = [part for name, value in self._served.items() for part in ("-e", f"{name}={value}")]
        target = ["--transport", "http", url] if url else [*settings, "--", *stdio_command()]
        return self._start("--cli", "--format", "json", "--protocol-era", era, *arguments, *target)

    def run(self, era, url, *arguments):
        """Run its command line: what it said."""
        process = self.begin(era, url, *arguments)
        said, complaint = process.communicate(timeout=50)
        assert process.returncode == 0, complaint
        return json.loads(said)["result"]

    def call(self, era, url, tool, **arguments):
        """Start its command line for a call of *tool*."""
        return self.begin(era, url, *_call(tool, arguments))

    def result(self, era, url, tool, **arguments):
        """Call *tool* by its command line."""
        return self.run(era, url, *_call(tool, arguments))

    def page(self, url):
        """Serve its page, for servers over stdio and at *url*, in both protocols: the address."""
        program, *words = stdio_command()
        ways = {
            "stdio": {"command": program, "args": words, "env": self._served},
            "http": {"type": "streamable-http", "url": url},
        }
        servers = {f"{way}-{era}": {**how, "protocolEra": era} for way, how in ways.items() for era in ERAS}
        settings = self._home / "servers.json"
        settings.write_text(json.dumps({"mcpServers": servers}))
        process = self._start("--web", "--config", str(settings))
        return next(found[0] for line in process.stdout if (found := re.findall(r"http://\S+TOKEN=\S+", line)))

    def _start(self, *arguments):
        process = subprocess.Popen(
            [self._program, *arguments],
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _call(tool, arguments):
    given = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
    return ("--method", "tools/call", "--tool-name", tool, *given)
