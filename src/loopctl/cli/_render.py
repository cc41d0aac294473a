"""A run's events as a person follows them: text as it comes, one line for each tool call.

Rules: text goes to one screen and everything else to another, which may be the same. On a terminal a running tool has
a line that is rewritten; elsewhere its start, its words and its end are lines of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopctl.cli._amount import Amount
from loopctl.cli._screen import Screen, shorten
from loopctl.concurrency import epoch
from loopctl.messages import ToolCall
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    CallStatus,
    Event,
    RunEnded,
    TextDelta,
    ThinkingDelta,
    ToolCallRecord,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WaitStarted,
)

__all__ = ["Renderer", "call_text"]

_MARKS = {
    CallStatus.COMPLETED: ("✓", "green"),
    CallStatus.FAILED: ("✗", "red"),
    CallStatus.DENIED: ("✗", "yellow"),
    CallStatus.NOT_STARTED: ("·", "dim"),
    CallStatus.INTERRUPTED: ("■", "yellow"),
    CallStatus.ABANDONED: ("■", "red"),
}
_WAITS = {
    "retry": ("the request failed", "trying again"),
    "rate_limit": ("rate limited", "trying again"),
    "gate": ("held back by the rate gate", "asking"),
}
_VALUE = 40
_ARGUMENTS = 100
_RESULT = 80


class Renderer:
    """Shows the events of one run."""

    def __init__(self, text: Screen, notes: Screen | None = None, *, shows_thinking: bool = False) -> None:
        """Show text on *text*, the rest on *notes* (None: the same screen)."""
        self._text = text
        self._notes = notes if notes is not None else text
        self._shows_thinking = shows_thinking
        self._is_thinking = False
        self._is_parted = True
        self._calls: dict[str, ToolCallRecord] = {}
        self.amount = Amount()
        """How much text was shown."""

    @property
    def running(self) -> list[ToolCallRecord]:
        """The calls that have begun and not ended; may be asked in a signal handler."""
        return list(self._calls.values())

    def follow(self, event: Event) -> None:
        """Note which calls run, and show nothing."""
        match event:
            case ToolStarted():
                self._calls[event.id] = event.call
            case ToolFinished():
                self._calls.pop(event.id, None)

    def take(self, event: Event) -> None:
        """Show *event*."""
        self.follow(event)
        match event:
            case TextDelta():
                self._say(event.text)
            case ThinkingDelta():
                self._think(event.text)
            case TurnStarted():
                self._wait(f"⋯ waiting for {event.model} (Ctrl-C stops)")
            case ToolStarted() | ToolProgress() | ToolFinished() | ApprovalRequested() | ApprovalEnded():
                self._tool(event)
            case AttemptReset() | WaitStarted():
                self._between(event)
            case TurnEnded():
                self._part()
            case RunEnded():
                self._notes.erase()

    def _between(self, event: AttemptReset | WaitStarted) -> None:
        match event:
            case AttemptReset():
                self._note("that attempt failed, another begins: what it said is void", "yellow")
            case WaitStarted():
                self._going_on(_waiting(event))

    def _say(self, text: str) -> None:
        self._notes.erase()
        if self._is_thinking:
            self._text.fresh()
            self._is_thinking = False
        elif self._is_parted and self._text.is_open:
            self._text.write("\n")
        self._is_parted = False
        self._text.write(text)
        self.amount.add(text)

    def _think(self, text: str) -> None:
        if not self._shows_thinking:
            return
        if not self._is_thinking:
            self._text.fresh()
            self._is_thinking = True
        self._text.write(text, "dim")

    def _part(self) -> None:
        self._notes.erase()
        self.amount.part()
        self._is_parted = True

    def _tool(self, event: ToolStarted | ToolProgress | ToolFinished | ApprovalRequested | ApprovalEnded) -> None:
        match event:
            case ToolStarted():
                self._running(event.call, "")
            case ToolProgress():
                call = self._calls.get(event.id)
                if call is not None:
                    self._running(call, _progress(event))
            case ApprovalRequested():  # the question is written by who asks it, where the live line was
                self._notes.erase()
            case ApprovalEnded():
                if event.answer == "allowed":
                    self._wait(f"⋯ {call_text(event.call)}")
            case ToolFinished():
                mark, style = _MARKS[event.call.status]
                self._note(f"{mark} {_finished(event.call)}", style)

    def _running(self, call: ToolCallRecord, progress: str) -> None:
        self._going_on(f"⋯ {progress} {call_text(call)}" if progress else f"⋯ {call_text(call)}")

    def _going_on(self, line: str) -> None:
        if self._notes.can_rewrite:
            self._wait(line)
        else:
            self._note(line, "dim")

    def _wait(self, line: str) -> None:
        self._end_of_text()
        self._notes.show(line)

    def _note(self, line: str, style: str) -> None:
        self._end_of_text()
        self._notes.line(line, style)

    def _end_of_text(self) -> None:
        if self._text.is_terminal or self._text is self._notes:
            self._text.fresh()


def call_text(call: ToolCallRecord | ToolCall) -> str:
    """Give a call as one would write it, shortened."""
    return f"{call.name}({_arguments(call.arguments)})"


def _waiting(event: WaitStarted) -> str:
    why, then = _WAITS.get(event.why, (shorten(event.why, _VALUE), "asking"))
    when = "" if event.seconds is None else f", {then} in {event.seconds:.0f} s"
    return f"⋯ {why}{when} (Ctrl-C stops)"


def _arguments(arguments: Mapping[str, Any]) -> str:
    pairs = (f"{name}={shorten(_value(value), _VALUE)}" for name, value in arguments.items())
    return shorten(", ".join(pairs), _ARGUMENTS)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _progress(event: ToolProgress) -> str:
    percent = "" if event.fraction is None else f"{event.fraction * 100:.0f} %"
    return " ".join(part for part in (percent, shorten(event.message, _VALUE)) if part)


def _finished(call: ToolCallRecord) -> str:
    status = call.status.value.replace("_", " ")
    took = ""
    if call.started_at is not None:
        ended_at = epoch() if call.ended_at is None else call.ended_at  # an abandoned call runs on
        took = f" {'after' if call.ended_at is None else 'in'} {_seconds(max(0.0, ended_at - call.started_at))}"
    why = f": {shorten(call.result, _RESULT)}" if call.status is CallStatus.FAILED and call.result else ""
    return f"{call_text(call)} {status}{took}{why}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
