"""A program: the page and its server, with a model that does what the message says.

    python served.py [--port N] [--store FILE] [--token T] [--on-disconnect cancel|detach]

Says its URL on one line of stdout once it listens, and ends at SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import time
from pathlib import Path

from loopctl import Agent, CancelSignal, RunConfig, ToolContext, tool
from loopctl.errors import ModelError
from loopctl.messages import ToolMessage, UserMessage
from loopctl.model import ReplyEnd, TextPart, ThinkingPart, ToolCallPart
from loopctl.web import approve, create_app, serve

HOSTILE = """<script>alert(1)</script> <img src=x onerror=alert(2)> <b onclick="alert(3)">bold?</b>
[link](javascript:alert(4)) [data](data:text/html,<script>alert(5)</script>) ![pixel](http://127.0.0.1:9/pixel.png)
<iframe src="http://127.0.0.1:9/frame"></iframe> <style>body{display:none}</style> [good](https://example.org/a?b=c)

```html
</code></pre><script>alert(6)</script>
```

| <script>alert(7)</script> | b |
|---|---|
| <svg onload=alert(8)> | ` <img src=x onerror=alert(9)> ` |
"""
MARKDOWN = """# How tides work

The sea rises and falls because the **Moon** and, less, the *Sun* pull at it. The pull falls off with distance, so the
near side of the Earth feels more of it than the far side.

## What you need to know

1. The Earth turns under *two* bulges of water.
2. A full cycle takes about 12 h 25 min.
   - High water comes later each day, by some 50 minutes.
   - Where a coast is shallow, much later.
3. At new and full moon both pull in one line: a **spring tide**.

> Tides are a tax that the Moon takes of the Earth's rotation.

| Body | Mass (kg) | Share of the tide |
|---|--:|--:|
| Moon | 7.3e22 | 68 % |
| Sun | 2.0e30 | 32 % |

```python
def height(hours: float) -> float:
    return 1.2 * math.cos(2 * math.pi * hours / 12.42)  # metres above the mean, on an idealised coast
```

Try `height(0)`, and see [the long story](https://en.wikipedia.org/wiki/Tide).
"""


class Puppet:
    """Reads what it has to do off the last message of the user."""

    name = "puppet"

    def __init__(self):
        self.attempts = {}

    async def stream(self, request):
        text = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
        has_result = isinstance(request.messages[-1], ToolMessage)
        word = text.split()[0].lower()
        deed = getattr(self, f"do_{word}", self.do_echo)
        async for delta in deed(text, has_result):
            yield delta
        yield ReplyEnd()

    async def do_echo(self, text, has_result):
        yield TextPart(f"You said: {text}")

    async def do_story(self, text, has_result):
        yield TextPart("# A story about a fox\n\n")
        for number in range(4000):
            yield TextPart(f"Once there was fox number **{number}** in a wood. " + ("\n\n" if number % 6 == 5 else ""))
            await asyncio.sleep(0.03)

    async def do_think(self, text, has_result):
        for word in ("Let me see.", "The person wants an answer,", "and a short one."):
            yield ThinkingPart(word + " ")
            await asyncio.sleep(0.02)
        yield TextPart("Here it is.")

    async def do_markdown(self, text, has_result):
        for at in range(0, len(MARKDOWN), 7):
            yield TextPart(MARKDOWN[at : at + 7])
            await asyncio.sleep(0.003)

    async def do_hostile(self, text, has_result):
        if has_result:
            yield TextPart(HOSTILE)
        else:
            yield call("echo", text=HOSTILE)

    async def do_fail(self, text, has_result):
        yield TextPart("It begins well, ")
        raise ModelError("the model server answered 400: the prompt is too long <b>by far</b>", status=400)

    async def do_again(self, text, has_result):
        self.attempts[text] = self.attempts.get(text, 0) + 1
        yield TextPart("It begins well, ")
        if self.attempts[text] == 1:
            raise ModelError("overloaded", status=503, retryable=True)
        yield TextPart("and it ends well.")

    async def do_turns(self, text, has_result):
        yield TextPart("Once more. ")
        yield call("echo", text="again")

    async def do_tools(self, text, has_result):
        if has_result:
            yield TextPart("All is done.")
            return
        yield TextPart("I look that up, and count.\n")
        yield call("echo", text="a needle in a haystack", at=0)
        yield call("count", at=1, to=40)

    async def _use(self, name, has_result, said="It is done.", **arguments):
        if has_result:
            yield TextPart(said)
        else:
            yield TextPart(f"I use {name}.\n")
            yield call(name, **arguments)

    def do_count(self, text, has_result):
        return self._use("count", has_result, to=400)

    def do_deploy(self, text, has_result):
        return self._use("deploy", has_result, version="1.4.2", to="production")

    def do_pay(self, text, has_result):
        return self._use("pay", has_result, amount=120)

    def do_stubborn(self, text, has_result):
        return self._use("stubborn", has_result)

    def do_block(self, text, has_result):
        return self._use("block", has_result)


def call(name, at=0, **arguments):
    return ToolCallPart(at, f"call-{name}-{time.monotonic_ns()}", name, json.dumps(arguments))


@tool
def echo(text: str) -> str:
    """Give it back."""
    return text


@tool
async def count(to: int, ctx: ToolContext) -> str:
    """Count."""
    for number in range(to):
        ctx.progress(f"counted to {number}", number / to)
        await ctx.sleep(0.05)
    return f"counted to {to}"


@tool(approval=True)
async def deploy(version: str, to: str) -> str:
    """Deploy a version."""
    return f"{version} is deployed to {to}"


@tool(on_cancel="finish", finish_within=60)
async def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    ctx.progress("waiting for the bank")
    await asyncio.sleep(50)
    return "paid"


@tool
async def stubborn() -> str:
    """Do not end."""
    end = time.monotonic() + 6
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass
    return "at last"


@tool
async def block() -> str:
    """Block the event loop, once it has been told that this has begun."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.2)
    time.sleep(9)
    return "at last"


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--token")
    parser.add_argument("--on-disconnect", default="cancel")
    options = parser.parse_args()
    tools = [echo, count, deploy, pay, stubborn, block]
    agent = Agent(Puppet(), tools=tools, approve=approve, config=RunConfig(max_turns=4))
    app = create_app(agent, store=options.store, token=options.token, on_disconnect=options.on_disconnect)
    over = CancelSignal()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.cancel)
    await serve(app, port=options.port, signal=over, on_ready=lambda url: print(url, flush=True))
    await agent.aclose()


if __name__ == "__main__":
    asyncio.run(main())
