"""`loopctl ps --url` and `loopctl cancel --url`: a server's runs, in the same words as those of this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import httpx2
import pytest

from tests.integration.web.served import PATIENCE, Stream, body
from tests.integration.web.test_command import serving

COMMAND = [sys.executable, "-m", "loopctl.cli"]


def loopctl(*arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_a_servers_run_is_listed_and_stopped_and_the_receipt_is_that_of_the_record():
    with serving() as (process, url), httpx2.stream("POST", f"{url}/runs", json=body(), timeout=PATIENCE) as response:
        stream = Stream(response)
        stream.until("TEXT_MESSAGE_CONTENT")
        run_id = response.headers["x-run-id"]
        [run] = json.loads(loopctl("ps", "--url", url, "--json").stdout)["runs"]
        assert (run["id"], run["pid"], run["command"]) == (run_id, process.pid, url)
        assert (run["checkpoint"], run["session_id"], run["model"]) == ("STREAM_EVENT", "t", "openai:test")
        assert f"{run_id[:12]}  running" in loopctl("ps", "--url", url).stdout
        here = json.loads(loopctl("ps", "--json").stdout)["runs"]
        assert [run["command"] for run in here if run["id"] == run_id] == ["loopctl serve"]
        done = loopctl("cancel", "--url", url, run_id[4:10], "--reason", "too long", "--json")
        record = stream.rest()[-2]["value"]["run"]
        receipt = json.loads(done.stdout)
        assert (done.returncode, receipt["state"], receipt["outcome"]) == (0, "ended", "cancelled")
        assert receipt["stop"] == record["stop"]
        assert record["stop"]["reason"]["message"] == "too long"
        late, strange = loopctl("cancel", "--url", url, run_id), loopctl("cancel", "--url", url, "run_0")
        assert (late.returncode, late.stdout) == (3, f"{run_id[:12]}: had ended before: cancelled\n")
        assert (strange.returncode, strange.stdout) == (4, "run_0: no such run goes on here. loopctl ps lists them\n")
        assert loopctl("ps", "--url", url).stderr == "No runs.\n"


def test_a_server_with_a_token_wants_it(tmp_path):
    (tmp_path / "token").write_text("a long random text\n")
    with serving("--token-file", str(tmp_path / "token")) as (_, url):
        refused = loopctl("ps", "--url", url)
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"loopctl: {url} said no (401): ")
        assert loopctl("ps", "--url", url, "--token-file", str(tmp_path / "token")).returncode == 0
        assert loopctl("cancel", "--url", url, "--all").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--url", "http://127.0.0.1:9"), 1, "Does loopctl serve run there?"),
        (("--url", "127.0.0.1:8780"), 2, "write http://127.0.0.1:8780"),
        (("--url", "http://127.0.0.1:9", "--token-file", "/nowhere"), 2, "--token-file /nowhere cannot be read"),
        (("--token-file", "x"), 2, "--token-file goes with --url"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments, code, why):
    done = loopctl("ps", *arguments)
    assert done.returncode == code
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


OTHER = """
import http.server, sys

class Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, b"<html>")

    def do_POST(self):
        self.answer(409, b'{"state": "unknown", "outcome": "running", "run": null, "error": {}}')

    def answer(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Other)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_a_server_of_something_else_is_said_to_be_one_and_a_run_that_goes_on_elsewhere_has_not_ended():
    run_id = f"run_{'0' * 32}"
    with subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True) as process:
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        listed, cancelled = loopctl("ps", "--url", url), loopctl("cancel", "--url", url, run_id)
        process.kill()
    assert listed.returncode == 1
    assert "does not speak the API of loopctl: its answer is no JSON" in listed.stderr
    assert (cancelled.returncode, cancelled.stdout[:38]) == (4, "run_00000000: no such run goes on here")
