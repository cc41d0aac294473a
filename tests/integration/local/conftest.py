"""One real server for the tests that can share it, and the talk with it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from loopctl.messages import UserMessage
from loopctl.model import ModelRequest, TextPart
from loopctl.providers.local import LocalModel

PATIENCE = 30.0


@pytest.fixture(scope="package")
def shared_model():
    model = LocalModel(context=4096, threads=1)
    asyncio.run(model.prepare())
    yield model
    asyncio.run(model.aclose())


@pytest.fixture
def own_model():
    model = LocalModel(context=512, threads=1)
    yield model
    asyncio.run(model.aclose())


class Talk:
    """Short words for what every test here says."""

    @staticmethod
    def request(text, *, tools=()):
        return ModelRequest("You are a helpful assistant.", (UserMessage(text),), tools)

    @classmethod
    async def first_words(cls, model, text="Say hello.", *, count=3, into=None):
        """Give the first pieces of a reply, and leave it."""
        pieces = [] if into is None else into
        stream = model.stream(cls.request(text))
        try:
            async for delta in stream:
                pieces.append(delta)
                if len(pieces) >= count:
                    break
        finally:
            await stream.aclose()
        return "".join(piece.text for piece in pieces if isinstance(piece, TextPart))

    @staticmethod
    async def until(condition):
        """Wait until *condition()* (plain or a coroutine function) is true, for a bounded time."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            result = condition()
            if await result if asyncio.iscoroutine(result) else result:
                return True
            await asyncio.sleep(0.02)
        return False

    @staticmethod
    def is_loading(pid):
        """Tell whether it has mapped the model's file, which it does while it holds its interpreter lock."""
        return pid is not None and ".gguf" in Path(f"/proc/{pid}/maps").read_text()

    @staticmethod
    def exists(pid):
        """Tell whether there is such a process; a zombie is one."""
        return Path(f"/proc/{pid}").exists()

    @staticmethod
    def runs(pid):
        """Tell whether it runs; a zombie, which waits for its parent to look, does not."""
        try:
            os.kill(pid, 0)
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        except (ProcessLookupError, FileNotFoundError):
            return False


@pytest.fixture
def talk():
    return Talk
