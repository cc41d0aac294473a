"""How a protocol takes the standard input and output of a process, and gives them back."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os, subprocess
from loopctl.adapters._stdio import own_stdio

print("before")
with own_stdio() as (inlet, outlet):
    os.set_blocking(inlet, False)
    os.set_blocking(outlet, False)
    print("a tool prints")
    subprocess.run(["sh", "-c", "cat; echo a process prints"])
    os.write(outlet, b"the protocol: " + os.read(inlet, 100))
    os.close(inlet)
    os.close(outlet)
print("after:", os.get_blocking(0), os.get_blocking(1), input())
"""


def test_only_the_protocol_reaches_the_client_and_all_is_given_back_as_it_was():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    ) as process:
        process.stdin.write("a message\n")
        said = [process.stdout.readline(), process.stdout.readline()]
        process.stdin.write("a line\n")
        process.stdin.flush()
        rest, complaint = process.communicate(timeout=20)
    assert said == ["before\n", "the protocol: a message\n"]
    assert rest == "after: True True a line\n"
    assert sorted(complaint.splitlines()) == ["a process prints", "a tool prints"]
