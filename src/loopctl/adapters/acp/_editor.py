"""The agent as the protocol sees it: the methods that the SDK calls, and the sessions of one client.

Rules: each method does what matters before it first waits, so that messages act in the order in which they came; what
the client did wrong is answered as its fault, in words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from acp import PROTOCOL_VERSION, RequestError
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
)

from loopctl.adapters.acp._content import ContentBlock, text_of
from loopctl.adapters.acp._prompt import Client, Prompt
from loopctl.adapters.acp._wire import REQUEST
from loopctl.concurrency import together
from loopctl.driver import Session
from loopctl.errors import UsageError
from loopctl.record import CancelReason

__all__ = ["Editor"]

_CANCEL = CancelReason("user", "the client sent session/cancel", "acp")
_CANCEL_REQUEST = CancelReason("user", "the client cancelled its request", "acp")
_CLOSE = CancelReason("user", "the client closed the session", "acp")
_log = logging.getLogger("loopctl.adapters.acp")


class _Conversation:
    """One session of the client, and its prompts that are not answered yet."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.prompts: list[Prompt] = []

    def cancel(self, reason: CancelReason) -> None:
        for prompt in self.prompts:
            prompt.cancel(reason)

    async def close(self) -> None:
        await self.session.aclose()
        for prompt in tuple(self.prompts):
            await prompt.over.wait()


class Editor:
    """What the SDK hands messages to; its method names are the SDK's."""

    def __init__(self, client: Client, session_in: Callable[[str], Session]) -> None:
        """Serve *client*.

        Args:
            client: The other end.
            session_in: Makes the session for a folder; a `UsageError` of it is told to the client.
        """
        self._client = client
        self._session_in = session_in
        self._conversations: dict[str, _Conversation] = {}

    async def initialize(self, **_: Any) -> InitializeResponse:
        """Say what we are and can.

        Cancellation:
            Never waits.
        """
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=False, session_capabilities=SessionCapabilities(close=SessionCloseCapabilities())
            ),
            agent_info=Implementation(name="loopctl", title="loopctl", version=version("loopctl-py")),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any) -> NewSessionResponse:
        """Begin a conversation about the folder *cwd*.

        Cancellation:
            Never waits.
        """
        if mcp_servers:
            _log.warning("the client's MCP servers are not connected: loopctl acp cannot do that yet")
        try:
            session = self._session_in(cwd)
        except UsageError as error:
            raise RequestError(-32602, str(error)) from error
        self._conversations[session.id] = _Conversation(session)
        return NewSessionResponse(session_id=session.id)

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
        """Stop and forget a session.

        Cancellation:
            As of `Session.aclose`.
        """
        conversation = self._find(session_id)
        del self._conversations[session_id]
        conversation.cancel(_CLOSE)
        await conversation.close()
        return CloseSessionResponse()

    def cancel_request(self, request: Any) -> None:
        """Stop the prompt whose request has the id *request*, if there is one."""
        for conversation in self._conversations.values():
            for prompt in conversation.prompts:
                if prompt.request == request and request is not None:
                    prompt.cancel(_CANCEL_REQUEST)

    async def aclose(self) -> None:
        """Close all sessions side by side, and wait until their prompts are answered.

        Cancellation:
            As of `Session.aclose`.
        """
        closing = [conversation.close for conversation in self._conversations.values()]
        if closing:
            await together(closing, limit=len(closing), name="loopctl acp session")

    def _find(self, session_id: str) -> _Conversation:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            raise RequestError(-32602, f"there is no session {session_id!r}: session/new makes one")
        return conversation
