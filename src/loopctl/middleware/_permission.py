"""Say which calls may run, which may not, and about which somebody is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from loopctl.errors import UsageError
from loopctl.messages import ToolCall
from loopctl.tools import Approval, CallContext, CallNext, ToolOutcome

__all__ = ["Permission", "Policy", "Verdict"]

Verdict: TypeAlias = Literal["allow", "ask", "deny"] | Approval
"""`Approval.deny(text)` tells the model why; `Approval.allow(arguments)` lets the call run with other arguments."""

Policy: TypeAlias = Callable[[ToolCall], Verdict]
"""Looks at a call and decides; it does not wait: who has to be waited for is asked by `approve`."""

_WORDS: dict[object, Approval | None] = {"allow": Approval.allow(), "ask": None, "deny": Approval.deny()}
_CHOICE = "'allow', 'ask', 'deny' or an Approval"


class Permission:
    """Lets calls run by rules.

    The first rule whose pattern matches the tool's name decides; if none does, `approve` of the agent is asked, about
    what would really run, and nobody to ask means no. What a tool says of itself by `@tool(approval=…)` holds as
    well: an "allow" does not take it back.
    """

    def __init__(self, rules: Mapping[str, Verdict | Policy]) -> None:
        """Decide by *rules*, in their order.

        Args:
            rules: A tool's name, or a pattern of names (`"read_*"`, `"*"`), and the verdict on its calls, or a function
                that gives it for a call.

        Raises:
            UsageError: Something in them is no rule.
        """
        given: object = rules
        if not isinstance(given, Mapping) or not all(isinstance(pattern, str) for pattern in given):
            raise UsageError(
                f"Permission takes rules by the names of tools, for instance {{'*': 'ask'}}, not {rules!r}"
            )
        for pattern, rule in rules.items():
            if not _is_rule(rule):
                raise UsageError(
                    f"Permission({{{pattern!r}: {rule!r}}}): give {_CHOICE}, or a plain function of a call that does"
                )
        self.rules: dict[str, Verdict | Policy] = dict(rules)

    async def tool_call(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolOutcome:
        """Pass the call on, or say no to it.

        Cancellation:
            As of the rest.
        """
        verdict = self._verdict(call)
        if verdict is None:
            ctx.require_approval()
            return await call_next(call)
        if not verdict.is_allowed:
            said = f"Calls of {call.name} like this one are not allowed. It was not run."
            return ToolOutcome.denied(verdict.text or said)
        if verdict.arguments is not None:
            call = replace(call, arguments=verdict.arguments)
        return await call_next(call)

    def _verdict(self, call: ToolCall) -> Approval | None:
        """Decide; None if somebody is asked."""
        for pattern, rule in self.rules.items():
            if fnmatchcase(call.name, pattern):
                given: object = rule(call) if callable(rule) else rule
                if isinstance(given, Approval):
                    return given
                if given not in _WORDS:
                    raise UsageError(f"the rule for {pattern!r} gave {given!r}: give {_CHOICE}")
                return _WORDS[given]
        return None


def _is_rule(rule: object) -> bool:
    if isinstance(rule, Approval | str):
        return isinstance(rule, Approval) or rule in _WORDS
    return callable(rule) and not inspect.iscoroutinefunction(rule)
