"""The agent as the protocol sees it: the methods that the SDK calls, and the sessions of one client.

Rules: each method does what matters before it first waits, so that messages act in the order in which they came; what
the client did wrong is answered as its fault, in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from acp import PROTOCOL_VERSION, RequestError
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
)

from loopctl.adapters.acp._content import ContentBlock, text_of
from loopctl.adapters.acp._prompt import Client, Prompt
from loopctl.adapters.acp._servers import Description, Servers
from loopctl.adapters.acp._wire import REQUEST
from loopctl.cancel import CancelSignal
from loopctl.concurrency import together
from loopctl.driver import Session
from loopctl.errors import Cancelled, ToolError, UsageError
from loopctl.record import CancelReason
from loopctl.tools import Tool

__all__ = ["Editor"]

_CANCEL = CancelReason("user", "the client sent session/cancel", "acp")
_CANCEL_REQUEST = CancelReason("user", "the client cancelled its request", "acp")
_CLOSE = CancelReason("user", "the client closed the session", "acp")
_CANCELLED = -32800
_INVALID_PARAMS = -32602
_FAILED = -32603


class _Beginning:
    """One request for a session that is not answered yet."""

    def __init__(self, request: Any, signal: CancelSignal) -> None:
        self.request = request
        self.signal = signal
        self.over = asyncio.Event()


class _Conversation:
    """One session of the client, its MCP servers, and its prompts that are not answered yet."""

    def __init__(self, session: Session, servers: Servers) -> None:
        self.session = session
        self.servers = servers
        self.prompts: list[Prompt] = []

    def cancel(self, reason: CancelReason) -> None:
        for prompt in self.prompts:
            prompt.cancel(reason)

    async def close(self) -> None:
        try:
            await self.session.aclose()
            for prompt in tuple(self.prompts):
                await prompt.over.wait()
        finally:
            await self.servers.aclose()


class Editor:
    """What the SDK hands messages to; its method names are the SDK's."""

    def __init__(self, client: Client, session_in: Callable[[str, Sequence[Tool]], Session]) -> None:
        """Serve *client*.

        Args:
            client: The other end.
            session_in: Makes the session for a folder, with more tools; a `UsageError` of it is told to the client.
        """
        self._client = client
        self._session_in = session_in
        self._beginnings: list[_Beginning] = []
        self._conversations: dict[str, _Conversation] = {}

    async def initialize(self, **_: Any) -> InitializeResponse:
        """Say what we are and can.

        Cancellation:
            Never waits.
        """
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=False,
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(close=SessionCloseCapabilities()),
            ),
            agent_info=Implementation(name="loopctl", title="loopctl", version=version("loopctl-py")),
            auth_methods=[],
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Description] | None = None, **meta: Any
    ) -> NewSessionResponse:
        """Begin a conversation about the folder *cwd*, with the tools of *mcp_servers*.

        Cancellation:
            Ends what had been connected.
        """
        beginning = _Beginning(meta.get(REQUEST), self._client.gone.child())
        self._beginnings.append(beginning)
        try:
            servers = Servers(mcp_servers or (), cwd)
            await servers.connect(beginning.signal)
            return await self._begin(cwd, servers)
        except UsageError as error:
            raise RequestError(_INVALID_PARAMS, str(error)) from error
        except ToolError as error:
            raise RequestError(_FAILED, str(error)) from error
        except Cancelled as stop:
            raise RequestError(_CANCELLED, f"the session was not begun: {stop.reason.message}") from stop
        finally:
            self._beginnings.remove(beginning)
            beginning.over.set()

    async def prompt(self, prompt: list[ContentBlock], session_id: str, **meta: Any) -> PromptResponse:
        """Answer a prompt.

        A prompt that comes while cancelled ones are still ending waits for them; any other second one is refused.

        Cancellation:
            Cancels its run.
        """
        conversation = self._find(session_id)
        text = text_of(prompt)
        earlier = tuple(conversation.prompts)
        if not all(before.is_cancelled for before in earlier):
            raise RequestError(-32600, "this session is busy with a prompt: cancel it first, or wait for its answer")
        ours = Prompt(self._client, session_id, meta.get(REQUEST))
        conversation.prompts.append(ours)
        try:
            for before in earlier:
                await before.over.wait()
            return await ours.perform(conversation.session, text)
        except UsageError as error:  # the session was closed meanwhile
            if ours.is_cancelled or self._client.gone.is_cancelled():
                return PromptResponse(stop_reason="cancelled")
            raise RequestError(-32600, str(error)) from error
        finally:
            conversation.prompts.remove(ours)
            ours.over.set()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what the client waits for in a session; nothing if it waits for nothing.

        Cancellation:
            Never waits.
        """
        conversation = self._conversations.get(session_id)
        if conversation is not None:
            conversation.cancel(_CANCEL)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Stop and forget a session, and end its MCP servers.

        Cancellation:
            As of `Session.aclose`.
        """
        conversation = self._find(session_id)
        conversation.cancel(_CLOSE)
        try:
            await conversation.close()
        finally:  # not before: until then the end of the client waits for it
            self._conversations.pop(session_id, None)
        return CloseSessionResponse()

    def cancel_request(self, request: Any) -> None:
        """Stop the prompt, or the beginning of a session, whose request has the id *request*, if there is one."""
        for beginning in self._beginnings:
            if beginning.request == request and request is not None:
                beginning.signal.cancel(_CANCEL_REQUEST)
        for conversation in self._conversations.values():
            for prompt in conversation.prompts:
                if prompt.request == request and request is not None:
                    prompt.cancel(_CANCEL_REQUEST)

    async def aclose(self) -> None:
        """Close all sessions side by side, and wait until their prompts are answered and their servers gone.

        Cancellation:
            As of `Session.aclose`.
        """
        for beginning in tuple(self._beginnings):
            await beginning.over.wait()
        closing = [conversation.close for conversation in self._conversations.values()]
        await together(closing, limit=len(closing), name="loopctl acp session")

    async def _begin(self, cwd: str, servers: Servers) -> NewSessionResponse:
        try:
            session = self._session_in(cwd, servers.tools)
        except UsageError:
            await servers.aclose()
            raise
        self._conversations[session.id] = _Conversation(session, servers)
        return NewSessionResponse(session_id=session.id)

    def _find(self, session_id: str) -> _Conversation:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            raise RequestError(_INVALID_PARAMS, f"there is no session {session_id!r}: session/new makes one")
        return conversation
