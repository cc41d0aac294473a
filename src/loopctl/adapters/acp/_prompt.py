"""One `session/prompt`: its run, what the client is told of it, what it is asked meanwhile, and the answer.

Rules:

1. A cancel is for the prompts that are open when it comes, and is kept by them: one that comes before the run has begun
   stops it as soon as there is a handle. It touches no other prompt.
2. A prompt that the client has cancelled is answered `cancelled`, whatever came of the stopping; only a run that had
   completed first says so, since its reply is part of the conversation.
3. A question is withdrawn when its wait ends without an answer.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from acp import RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import PermissionOption, PromptResponse, SessionNotification, StopReason, ToolCallUpdate

from loopctl.adapters.acp._updates import kind_of, title_of, tool_call_id, update_of
from loopctl.adapters.acp._wire import Wire
from loopctl.cancel import CancelSignal
from loopctl.driver import RunHandle, Session
from loopctl.messages import ToolCall
from loopctl.record import AttemptReset, CancelReason, Event, Run, TextDelta, TurnStarted
from loopctl.tools import Approval, ToolContext

__all__ = ["Client", "Prompt", "approve"]

_CURRENT: ContextVar[Prompt] = ContextVar("loopctl_acp_prompt")
_ALLOW = "allow"
_OPTIONS = [
    PermissionOption(option_id=_ALLOW, name="Allow", kind="allow_once"),
    PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]
_DISMISSED = CancelReason("user", "the client cancelled the question about a tool call", "acp")
_STOPPED_BY_LIMIT = frozenset({"deadline", "stall"})
_FAILED = -32603
_STOP_REASONS: dict[str | None, StopReason] = {"length": "max_tokens", "content_filter": "refusal"}


class Client:
    """The one client of a connection: where it is told and asked."""

    def __init__(self, wire: Wire, gone: CancelSignal) -> None:
        """Talk by *wire*; *gone* fires when the client goes away, or when the agent is to end."""
        self.wire = wire
        self.gone = gone
        self.connection: AgentSideConnection | None = None
        """Set as soon as there is one, which is before the first message."""


class Prompt:
    """One prompt that the client waits for."""

    def __init__(self, client: Client, session_id: str, request: Any) -> None:
        """Begin as one that has not begun.

        Args:
            client: Who waits.
            session_id: The client's name of the session.
            request: The id of the client's request.
        """
        self.request = request
        self.is_cancelled = False
        """True once the client has cancelled it."""
        self.over = asyncio.Event()
        """Set when the answer has been given."""
        self._client = client
        self._session_id = session_id
        self._reason: CancelReason | None = None
        self._handle: RunHandle | None = None
        self._has_shown = False

    def cancel(self, reason: CancelReason) -> None:
        """Stop it for the client, also if its run has not begun."""
        self.is_cancelled = True
        self._reason = self._reason or reason
        if self._handle is not None:
            self._handle.cancel(reason)

    async def perform(self, session: Session, text: str) -> PromptResponse:
        """Run *session* on *text* and give the answer.

        Raises:
            RequestError: The run has failed, or was stopped by a limit of its own.

        Cancellation:
            Cancels the run (origin `caller`) and waits for its end.
        """
        _CURRENT.set(self)  # the run's task, and all that comes of it, is made in this context
        handle = self._handle = session.start(text, signal=self._client.gone)
        if self._reason is not None:
            handle.cancel(self._reason)
        async with handle:
            async for event in handle:
                await self._tell(event)
        run = await handle
        if run.outcome in {"cancelled", "max_turns"}:
            session.adopt(run)  # the editor goes on showing what was said and done
        return self._answer(run)

    async def ask(self, call: ToolCall) -> bool:
        """Ask the client whether *call* may run.

        Cancellation:
            Withdraws the question.
        """
        assert self._handle is not None, "only a run asks"
        assert self._client.connection is not None, "prompts come by a connection"
        named = tool_call_id(self._handle.id, call.id)
        asked = ToolCallUpdate(
            tool_call_id=named,
            title=title_of(call.name, call.arguments),
            kind=kind_of(call.name),
            status="pending",
            raw_input=dict(call.arguments),
        )
        try:
            response = await self._client.connection.request_permission(self._session_id, asked, _OPTIONS)
        except asyncio.CancelledError:
            self._client.wire.withdraw(named)
            raise
        finally:
            self._client.wire.questions.pop(named, None)
        if response.outcome.outcome == "cancelled":
            self.cancel(_DISMISSED)  # it says that the whole prompt was, and may come before `session/cancel` does
            return False
        return response.outcome.option_id == _ALLOW

    async def _tell(self, event: Event) -> None:
        if isinstance(event, AttemptReset) and not self._has_shown:
            return
        self._has_shown = isinstance(event, TextDelta) or (self._has_shown and not isinstance(event, TurnStarted))
        update = update_of(event)
        if update is None:
            return
        # By the wire: the SDK's own way raises as soon as the input has ended, when the run is still being stopped.
        told = SessionNotification(session_id=self._session_id, update=update)
        params = told.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        await self._client.wire.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def _answer(self, run: Run) -> PromptResponse:
        if run.outcome == "completed":
            return PromptResponse(stop_reason=_STOP_REASONS.get(run.turns[-1].stop_reason, "end_turn"))
        if self.is_cancelled:
            return PromptResponse(stop_reason="cancelled")
        if run.outcome == "max_turns":
            return PromptResponse(stop_reason="max_turn_requests")
        if run.stop is None:
            raise RequestError(_FAILED, f"the run failed: {run.error}")
        if run.stop.reason.origin in _STOPPED_BY_LIMIT:
            raise RequestError(_FAILED, f"the run was stopped: {run.stop.reason}")
        return PromptResponse(stop_reason="max_tokens" if run.stop.reason.origin == "budget" else "cancelled")


async def approve(call: ToolCall, ctx: ToolContext) -> bool | Approval:  # noqa: ARG001 - an approver takes both
    """Ask the client of the prompt that the call belongs to; give it to `Agent(approve=…)`.

    Args:
        call: What is asked about.
        ctx: Its context.

    Returns:
        True if the client said yes. A call of a run that no client has asked for is denied.

    Cancellation:
        Withdraws the question: `$/cancel_request` is sent for it, and a late answer is dropped.
    """
    prompt = _CURRENT.get(None)
    if prompt is None:
        return Approval.deny(f"{call.name} needs a person's approval, and no editor is there to ask. It was not run.")
    return await prompt.ask(call)
