"""An MCP server (protocol of 2025) written by hand, that does what a good one does not.

`python tests/peers/mcp_stubborn.py MODE`; every message that it gets is written into the file `MCP_LOG` names.

- mute: answers nothing at all. deaf: the same, survives TERM and the end of its input, and has a child that does too.
- silent: closes its output at the first call and lives on. clinging: survives TERM and the end of its input.
- loud: `work` ignores a cancel, tells progress all the way and answers late; `flood` never stops telling.
- refusing: lists no tools, and says why. garbled: `work` answers with half of a character, `other` with nothing.
- endless: writes a line without an end. fickle: `work` takes something else from the first call on, and `flood` goes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": name, "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for name in ("work", "flood", "other")
]


def log(line: str) -> None:
    """Tell the test what happened."""
    with Path(os.environ["MCP_LOG"]).open("a") as file:
        file.write(line + "\n")


def say(**message: Any) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def progress(token: Any, step: int) -> None:
    """Tell of progress."""
    say(method="notifications/progress", params={"progressToken": token, "progress": step, "message": f"step {step}"})


def work(request: dict[str, Any]) -> None:
    """Tell progress to the end, then answer, whatever anybody says."""
    token = request["params"]["_meta"]["progressToken"]
    for step in range(1, 8):
        progress(token, step)
        time.sleep(0.1)
    say(id=request["id"], result={"content": [{"type": "text", "text": "late"}]})
    log("answered")


def flood(request: dict[str, Any]) -> None:
    """Tell progress for ever."""
    token, step = request["params"]["_meta"]["progressToken"], 0
    log("flooding")
    while True:
        step += 1
        progress(token, step)
        if step % 10000 == 0:
            log(f"sent {step}")


def change(request: dict[str, Any]) -> None:
    """Take a tool away and change another, and say so."""
    schema = {"type": "object", "properties": {"m": {"type": "string"}}}
    TOOLS[:] = [{**TOOLS[0], "inputSchema": schema}, TOOLS[-1]]
    say(method="notifications/tools/list_changed")
    say(id=request["id"], result={"content": [{"type": "text", "text": "changed"}]})


def answer(request: dict[str, Any]) -> None:
    """Answer one request."""
    match request["method"]:
        case "initialize":
            info = {"name": "stubborn", "version": "1"}
            version = request["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}}
            say(id=request["id"], result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        case "tools/list" if MODE == "refusing":
            say(id=request["id"], error={"code": -32603, "message": "the licence has ended"})
        case "tools/list":
            say(id=request["id"], result={"tools": TOOLS})
        case "tools/call" if MODE == "fickle":
            change(request)
        case "tools/call" if MODE == "garbled":
            is_work = request["params"]["name"] == "work"
            say(id=request["id"], result={"content": [{"type": "text", "text": "cut \ud83d"}]} if is_work else None)
        case "tools/call" if MODE == "silent":
            os.close(1)
        case "tools/call" if MODE == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        case "tools/call":
            does = {"work": work, "flood": flood}[request["params"]["name"]]
            threading.Thread(target=does, args=(request,), daemon=True).start()
        case _:
            say(id=request["id"], error={"code": -32601, "message": "no such method"})


def main() -> None:
    """Serve."""
    if MODE in {"deaf", "clinging"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "deaf":
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        log(f"pid {subprocess.Popen([sys.executable, '-c', code]).pid}")
    log(f"pid {os.getpid()}")
    print("this is no message")
    for line in sys.stdin:
        log(line.strip())
        message = json.loads(line)
        if MODE not in {"mute", "deaf"} and "id" in message and "method" in message:
            answer(message)
    log("end of input")
    if MODE in {"deaf", "clinging"}:
        time.sleep(600)


if __name__ == "__main__":
    main()
