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
"""


def program(text: str, *, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    source = HEAD + textwrap.dedent(text)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout, check=False)
