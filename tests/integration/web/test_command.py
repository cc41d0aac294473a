"""`loopctl serve` as a process: its address, its end by a signal, what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx2
import pytest

from tests.integration.web.served import PATIENCE, Stream, body
from tests.peers.openai_server import OpenAIServer, endless

COMMAND = [sys.executable, "-m", "loopctl.cli", "serve"]


@contextmanager
def serving(*options: str):
    with OpenAIServer(endless(0.005)) as model:
        argv = [*COMMAND, "--port", "0", "--base-url", model.url, "--model", "test", *options]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            url = re.search(r"http://\S+", line)
            assert url, line + process.stderr.read()
            yield process, url[0].rstrip("/")
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("number", "code", "origin"), [(signal.SIGTERM, 143, "shutdown"), (signal.SIGINT, 130, "shutdown")]
)
def test_a_signal_stops_what_runs_tells_its_clients_and_ends_the_command(number, code, origin):
    with (
        serving() as (process, url),
        httpx2.stream("POST", f"{url}/runs", json=body(), timeout=PATIENCE) as response,
    ):
        stream = Stream(response)
        stream.until("TEXT_MESSAGE_CONTENT")
        os.kill(process.pid, number)
        events = stream.rest()
        assert events[-1]["outcome"] == {"type": "cancelled"}
        assert events[-2]["value"]["run"]["stop"]["reason"]["origin"] == origin
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (code, "")


def test_a_request_that_is_still_being_sent_is_cut_off_without_a_word_in_the_log():
    with serving() as (process, url):
        with socket.create_connection(("127.0.0.1", httpx2.URL(url).port)) as slow:
            slow.sendall(
                b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
            )
            assert slow.recv(100).startswith(b"HTTP/1.1 100"), "its body is not awaited"
            os.kill(process.pid, signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (143, "")


def test_nobody_elsewhere_is_served_without_a_token(tmp_path):
    argv = [*COMMAND, "--host", "0.0.0.0", "--port", "0", "--model", "test", "--base-url", "http://127.0.0.1:9/v1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give loopctl serve a --token-file" in done.stderr


def test_a_token_is_read_from_a_file(tmp_path):
    (tmp_path / "token").write_text("secret\n")
    with serving("--token-file", str(tmp_path / "token")) as (_, url):
        assert httpx2.get(f"{url}/runs").status_code == 401
        right = httpx2.get(f"{url}/runs", headers={"Authorization": "Bearer secret"})
        assert (right.status_code, json.loads(right.text)["runs"]) == (200, [])
