"""Owns the child process that runs llama.cpp and serves the OpenAI protocol on loopback.

Run as a script by its path, with only the standard library and xllamacpp: `-m` would put the working directory on the
path, where a stray `json.py` would be ours, and would import the rest of loopctl for nothing.

The talk with the parent:

- stdin: one JSON object with the settings, then nothing. Its end means that the parent is gone, and so is this process.
- stdout: one line with the address when the model is loaded; then closed. Closed without it: the start failed.
- stderr: the log.

The key is told on stdin because a command line can be read by everybody on the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Load the model that the first line of stdin names, serve it, and end with the parent."""
    settings = json.loads(sys.stdin.buffer.readline())
    # llama.cpp may print; what the parent reads as the address must come from here alone.
    answer = os.dup(1)
    os.dup2(2, 1)
    _die_with(settings["parent"], is_by_signal=settings["is_from_main_thread"])
    try:
        address = _start(settings)
    except RuntimeError:
        sys.exit(1)  # llama.cpp has said on stderr what is wrong; a traceback would only bury it
    os.write(answer, address.encode() + b"\n")
    os.close(answer)
    threading.Event().wait()


def _die_with(parent: int, *, is_by_signal: bool) -> None:
    """End this process when *parent* does.

    The interpreter lock is held while a model loads, so a thread cannot notice it then; Linux's signal can. It is sent
    at the end of the *thread* that made us, so it is asked for only if that was the parent's main thread.
    """
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    if is_by_signal and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _exit_at_end_of_input() -> None:
    while os.read(0, 4096):
        continue
    os._exit(0)


def _start(settings: dict[str, Any]) -> str:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = settings["name"]
    params.n_ctx = settings["context"]
    params.cpuparams.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    # A page in the user's browser can reach loopback too: it gets no permission, and no page to look at.
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = True
    params.verbosity = 1
    params.warmup = False
    params.cache_ram_mib = 512
    _keep.append(server := xllamacpp.Server(params))
    return str(server.listening_address)


_keep: list[Any] = []  # the server ends with its object


if __name__ == "__main__":
    main()
