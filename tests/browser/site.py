"""The page as a person meets it: a server process, a tab that lets nothing out, and short words for what one does.

Rule: whatever a page asks for elsewhere, writes to the console as an error, or opens as a dialog is noted, and is a
failure unless a test says that it expects it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SERVED = Path(__file__).with_name("served.py")
PATIENCE = 20.0


class Site:
    """The server, a process of its own."""

    def __init__(self, *options: str, command=(sys.executable, str(SERVED))):
        self._command = [*command, *options]
        self.start()

    def start(self):
        unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=unbuffered)
        line = self._process.stdout.readline()
        assert "http://" in line, f"{self._command} said {line!r}, and ended with {self._process.poll()}"
        self.url = "http://" + line.split("http://")[1].split()[0]

    @property
    def port(self):
        return self.url.rstrip("/").rpartition(":")[2]

    def restart(self, how=signal.SIGKILL):
        """End it by *how*, and start another one at the same place."""
        port = self.port
        self.close(how)
        self._command += ["--port", port]
        self.start()

    def close(self, how=signal.SIGTERM):
        self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def ask(self, path):
        """What the API says."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def runs(self):
        """The runs, newest first."""
        return self.ask("runs")["runs"]

    def until_ended(self):
        """The newest run, once it has ended."""
        return until(lambda: next((run for run in self.runs()[:1] if run["outcome"] != "running"), None))


class Tab:
    """One tab with the page in it."""

    def __init__(self, page, site):
        self.page = page
        self.site = site
        self.outside = []
        self.errors = []
        self.dialogs = []
        page.route(lambda url: not url.startswith(site.url), self._refuse)
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("dialog", self._dismiss)

    def _refuse(self, route):
        self.outside.append(route.request.url)
        route.abort()

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check(self):
        """Nothing went out, nothing was complained of, nothing popped up."""
        assert (self.outside, self.errors, self.dialogs) == ([], [], [])

    def open(self, where=""):
        self.page.goto(self.site.url + where)
        self.page.get_by_role("banner").wait_for()
        return self

    @property
    def box(self):
        return self.page.get_by_label("Message", exact=True)

    @property
    def stop_button(self):
        return self.page.locator(".stop")

    @property
    def last(self):
        """The newest message, and its answer."""
        return self.page.get_by_role("article").last

    @property
    def report(self):
        return self.last.get_by_label("Stop report")

    @property
    def card(self):
        """The newest tool card."""
        return self.last.locator(".call").last

    def send(self, text):
        self.box.fill(text)
        self.box.press("Enter")

    def until_said(self, text):
        self.last.get_by_text(text).first.wait_for()

    def until_ended(self):
        self.stop_button.wait_for(state="hidden")

    def stop(self):
        """Press Stop, and wait for the end."""
        self.stop_button.click()
        self.until_ended()


def until(found, patience=PATIENCE):
    """Wait for a true answer of *found*, and give it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        answer = found()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {patience} s: {found}")
