"""What the middleware around one attempt of a tool call knows of it, and can ask the engine for."""

from __future__ import annotations

from collections.abc import Callable

from loopctl.cancel import CancelToken
from loopctl.concurrency import Straggler
from loopctl.errors import UsageError
from loopctl.tools._commands import Commands
from loopctl.tools._context import ToolContext, means_of
from loopctl.tools._ledger import EffectLedger
from loopctl.tools._limit import TimeLimit, check_limit

__all__ = ["CallContext"]


class CallContext(ToolContext):
    """One attempt of a call, as middleware sees it."""

    __slots__ = ("limits", "needs_approval", "read_only", "still_running")

    limits: list[TimeLimit]
    """What `limit` was told."""
    needs_approval: bool
    """True once somebody has to say yes to this call: a middleware, or the tool itself, wants it."""
    read_only: bool
    """True if the tool is declared to change nothing."""
    still_running: list[Straggler]
    """What of the tool goes on though it was stopped; known when `call_next` returns or raises."""

    def __init__(  # noqa: PLR0913 - those of a tool's context
        self,
        call_id: str,
        tool_name: str,
        token: CancelToken,
        idempotency_key: str,
        report: Callable[[str, float | None], None],
        *,
        read_only: bool,
        ledger: EffectLedger | None = None,
        commands: Commands | None = None,
    ) -> None:
        """Make the context of one attempt; the engine does this."""
        super().__init__(call_id, tool_name, token, idempotency_key, report, ledger=ledger, commands=commands)
        self.limits = []
        self.needs_approval = False
        self.read_only = read_only
        self.still_running = []

    def limit(self, seconds: float, *, retries: int = 0) -> None:
        """Bound the tool's own time, before the call is passed on. The least limit counts.

        Args:
            seconds: More than 0.
            retries: Attempts that may follow one that took too long, each with twice the time.

        Raises:
            UsageError: One of them is no such number.
        """
        given: object = retries
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise UsageError(f"limit(retries=…) is a whole number from 0 on, not {given!r}")
        self.limits.append(TimeLimit(check_limit("limit", seconds), retries))

    def require_approval(self) -> None:
        """Let the agent's `approve` be asked, before the tool runs, about what would really run."""
        self.needs_approval = True

    def for_tool(self, token: CancelToken, acting: CancelToken) -> ToolContext:
        """Give what the tool gets, with the signal that may stop this attempt, and what ends the waits in there."""
        means = self._means
        context = ToolContext(
            self.call_id,
            self.tool_name,
            token,
            self.idempotency_key,
            means.report,
            ledger=means.ledger,
            commands=means.commands,
        )
        means_of(context).acting = acting
        return context
