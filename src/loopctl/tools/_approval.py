"""Ask a person, or a policy, before a call.

Rules: nobody to ask, no answer, and an answer that is none all mean no; a cancel means no as well, and then the call
was never started.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from loopctl.concurrency import Ending, Grace, TaskWork, describe, supervise
from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.record import Checkpoint
from loopctl.tools._context import ToolContext
from loopctl.tools._text import encodable

__all__ = ["Approval", "Approver", "ask", "check_approver", "verdict"]


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to the question whether a call may run.

    Raises:
        UsageError: It is none: a word is no yes.
    """

    is_allowed: bool
    text: str = ""
    """What the model is told of a no."""
    arguments: Mapping[str, Any] | None = None
    """What the call runs with instead, if it is allowed; None leaves its arguments as they are."""

    def __post_init__(self) -> None:
        """Check each part."""
        for name, value, kind, what in (
            ("is_allowed", self.is_allowed, bool, "True or False"),
            ("text", self.text, str, "a text for the model"),
            ("arguments", self.arguments, Mapping | None, "a mapping, or None"),
        ):
            if not isinstance(value, kind):
                raise UsageError(f"Approval.{name} is {what}, not {value!r}")

    @classmethod
    def allow(cls, arguments: Mapping[str, Any] | None = None) -> Approval:
        """Say yes, perhaps to other *arguments*, which are validated like a model's."""
        return cls(is_allowed=True, arguments=arguments)

    @classmethod
    def deny(cls, text: str = "") -> Approval:
        """Say no, and *text* to the model."""
        return cls(is_allowed=False, text=text)


Approver: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[bool | Approval]]
"""Says whether a call may run; awaited at the checkpoint `APPROVAL`."""


def check_approver(approve: object) -> Approver | None:
    """Give *approve* if it can be asked.

    Raises:
        UsageError: It cannot be called.
    """
    if approve is not None and not callable(approve):
        raise UsageError(f"approve= takes an async function of a call and its context, not {approve!r}")
    return approve


async def ask(approve: Approver, call: ToolCall, context: ToolContext, grace: Grace) -> Ending:
    """Ask *approve*, unless the call's signal fires first.

    Returns:
        How that ended; `verdict` reads it.

    Cancellation:
        The checkpoint `APPROVAL`: the question is withdrawn by a cancellation of the task that asks.
    """
    work = TaskWork(_answer(approve, call, context), name=f"loopctl approval of {call.name}")
    return await supervise(work, context.signal, grace=grace, at=Checkpoint.APPROVAL)


async def _answer(approve: Approver, call: ToolCall, context: ToolContext) -> object:
    given: object = approve(call, context)
    return await given if inspect.isawaitable(given) else given


def verdict(call: ToolCall, ending: Ending | None) -> Approval:
    """Read the answer; *ending* is None if there was nobody to ask."""
    if ending is None:
        return Approval.deny(f"{call.name} needs a person's approval, and there is nobody to ask. It was not run.")
    if ending.how != "returned":
        said = encodable(describe(ending.error))
        return Approval.deny(f"{call.name} was not run: asking for approval failed ({said}).")
    answer: object = ending.value
    if isinstance(answer, Approval):
        return answer if answer.is_allowed or answer.text else Approval.deny(_refusal(call))
    if answer is True:
        return Approval.allow()
    if answer is False:
        return Approval.deny(_refusal(call))
    return Approval.deny(
        f"{call.name} was not run: approve gave {type(answer).__name__}, which is neither a bool nor an Approval."
    )


def _refusal(call: ToolCall) -> str:
    return f"The call of {call.name} was not approved. It was not run."
