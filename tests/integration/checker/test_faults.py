"""`check_abandon` finds the planted fault in each faulty tool, at its line, and nothing in the good ones."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from loopctl.testing import check_abandon
from loopctl.tools import Tool
from tests.integration.checker import faulty, good

START = {"there.txt": "row\nrow\nrow\n"}


def tools(module):
    return {
        name: value
        for name, value in vars(module).items()
        if value.__class__ in (Tool, types.FunctionType) and value.__module__ == module.__name__ and name[0] != "_"
    }


FAULTY = tools(faulty)
GOOD = tools(good)


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello" * 1000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body), 1000):
            with contextlib.suppress(ConnectionError):  # the tool was killed
                self.wfile.write(body[start : start + 1000])
                self.wfile.flush()

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def arguments(function, url=""):
    known = {"path": "there.txt", "new": "new.bin", "url": url}
    return {name: known[name] for name in inspect.signature(function).parameters if name in known}


def marked(function):
    lines, first = inspect.getsourcelines(function)
    for number, line in enumerate(lines, first):
        found = re.search(r"# here: (\w+)(, killed)?", line)
        if found:
            return number, found[1], "kill" if found[2] else "cancel"
    raise AssertionError(f"{function.__name__} marks no line")


def test_there_are_enough_of_them():
    assert len(FAULTY) >= 10
    assert len(GOOD) >= 10


@pytest.mark.parametrize("name", FAULTY)
def test_the_planted_fault_is_found_at_its_line(name):
    function = FAULTY[name]
    line, kind, mode = marked(function)
    report = check_abandon(function, arguments(function), files=START, modes=[mode], grace=0.1, patience=5)
    found = {(finding.kind, finding.line) for finding in report.findings}
    assert (kind, line) in found, str(report)
    assert all(finding.file == faulty.__file__ for finding in report.findings)
    assert all(finding.mend for finding in report.findings)


@pytest.mark.shares("threads")  # those of the server
@pytest.mark.parametrize("name", GOOD)
def test_a_good_tool_raises_no_alarm(name, url):
    function = GOOD[name]
    report = check_abandon(function, arguments(function, url), files=START, limit=6)
    assert report.is_safe, str(report)
    assert report.kills
