"""Programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

__all__ = ["program"]

HEAD = """
import asyncio, os, signal, sys, threading, time
import loopctl
from loopctl import Agent, CancelSignal, Cancelled, RunConfig
from loopctl.testing import ScriptedModel, call, say, stall

def block() -> str:
    "Block a thread."
    time.sleep(30)
    return "late"

async def refuse() -> str:
    "Refuse."
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass
"""


def program(text: str, *, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    source = HEAD + textwrap.dedent(text)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout, check=False)
