"""What a model of one's own implements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from loopctl.model._delta import Delta
from loopctl.model._request import ModelRequest

__all__ = ["Model"]


@runtime_checkable
class Model(Protocol):
    """A language model: a name and one method.

    Optional, looked for by name:

    - `async def complete(self, request) -> Sequence[Delta]`: the same reply from one non-streaming request, used
      with `RunConfig(stream=False)`, and once more after streaming gave up (checkpoint `RESCUE`). Without it the
      engine streams all the same, and rescues nothing.
    - `async def prepare(self) -> None`: awaited before the first request (checkpoint `SETUP`), for instance to start
      a local server. Called before every request, so it returns at once when there is nothing to do. If it is
      cancelled it leaves nothing half-open.
    - `async def aclose(self) -> None`: give up connections and processes; awaited by `Agent.aclose`.
    """

    @property
    def name(self) -> str:
        """How records and errors call this model, for instance `openai:gpt-5.2`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Start one request and give the reply piece by piece, the last piece a `ReplyEnd`.

        Raises:
            ModelError: The request failed. Any other exception is wrapped in one.

        Cancellation:
            The engine runs the iterator in one task and cancels that task. Close the connection on
            `asyncio.CancelledError` (a `finally` or `async with` does) and let it through.
        """
        ...
