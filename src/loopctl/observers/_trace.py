"""The spans of one run: `invoke_agent`, under it a `chat` per turn and an `execute_tool` per call.

Invariants:

1. Every span that was started is ended: by its own closing, or with the run, whatever the ending.
2. A span that was cut short waits, its end time noted, until it is known what cut it: an interrupted call is no error
   if somebody stopped the run, and one if its deadline did.
3. The parent is given to each span explicitly. Nothing is attached to the context, so nothing has to be detached where
   the run happens to end.
4. Times of one run come from one clock, read at its start: no span ends before it starts or outside of its parent.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from loopctl.concurrency import epoch, monotonic
from loopctl.observers._conventions import (
    ERROR_TYPE,
    Attributes,
    call_error,
    call_result,
    call_start,
    chat_error,
    chat_outcome,
    chat_result,
    model_of,
    run_error,
    run_result,
    stop_labels,
)
from loopctl.observers._metrics import Metrics
from loopctl.observers._text import one_line
from loopctl.record import (
    ApprovalEnded,
    ApprovalRequested,
    AttemptReset,
    CallStatus,
    Event,
    Run,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnStarted,
    WaitStarted,
)

__all__ = ["RunTrace"]


@dataclass(slots=True)
class _Chat:
    span: Span
    model: Attributes
    started: float
    """Monotonic seconds, as all times here."""
    ended: float | None = None
    turn: Turn | None = None
    attempts: int = 1


@dataclass(slots=True)
class _Call:
    span: Span
    name: str
    started: float
    ended: float | None = None
    record: ToolCallRecord | None = None


@dataclass(slots=True)
class RunTrace:
    """One run's spans while it goes on; fed its events in order."""

    tracer: Tracer
    metrics: Metrics
    root: Span
    began: float
    """Monotonic seconds."""
    began_at: float
    """Epoch seconds of the same moment."""
    agent: Attributes
    _chat: _Chat | None = None
    _calls: dict[str, _Call] = field(default_factory=dict)
    _waiting: list[_Chat | _Call] = field(default_factory=list)
    """Over, but it is not known yet why."""

    @classmethod
    def begin(cls, tracer: Tracer, metrics: Metrics, run_id: str, agent: Attributes) -> RunTrace:
        """Start the span of a run, under the span that is current where the run was started."""
        began, began_at = monotonic(), epoch()
        name = agent.get("gen_ai.agent.name")
        root = tracer.start_span(
            f"invoke_agent {name}" if name else "invoke_agent",
            kind=SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": "invoke_agent", "loopctl.run.id": run_id, **agent},
            start_time=_nanoseconds(began_at),
        )
        return cls(tracer, metrics, root, began, began_at, agent)

    def see(self, event: Event) -> None:
        """Take an event between the first and the last."""
        match event:
            case TurnStarted():
                self._start_chat(event)
            case AttemptReset() | WaitStarted():
                self._note_in_chat(event)
            case ToolStarted():
                self._start_call(event)
            case ApprovalRequested():
                self._note_in_call(event.id, "loopctl.approval_requested", {})
            case ApprovalEnded():
                self._note_in_call(event.id, "loopctl.approval_ended", {"loopctl.approval.answer": event.answer})
            case ToolFinished():
                self._finish_call(event.call)
            case TurnEnded():
                self._finish_chat(event.turn)

    def end(self, run: Run | None) -> None:
        """End every span that is open.

        Args:
            run: The record; None if the rest of the run will never be known.
        """
        now = monotonic()
        with ExitStack() as stack:  # each is ended, also if an exporter makes trouble at another one
            stack.callback(self._end_root, run, now)
            if self._chat is not None:
                stack.callback(self._end_chat, self._chat, run, now)
            for call in self._calls.values():
                stack.callback(self._end_call, call, run, now)
            for over in self._waiting:
                stack.callback(self._end_waiting, over, run, now)

    def _start_chat(self, event: TurnStarted) -> None:
        now = monotonic()
        self._settle(now)
        model = model_of(event.model)
        if event.number == 1:
            self.root.set_attributes(model)
        attributes = {"gen_ai.operation.name": "chat", "loopctl.turn": event.number, **model}
        span = self._start(f"chat {model['gen_ai.request.model']}", SpanKind.CLIENT, attributes, now)
        self._chat = _Chat(span, model, now)

    def _settle(self, now: float) -> None:
        """The run went on: what waits was cut short by a failure of its own."""
        waiting, self._waiting = self._waiting, []
        if self._chat is not None:
            waiting.append(self._chat)
            self._chat = None
        for over in waiting:
            self._end_waiting(over, None, now)

    def _note_in_chat(self, event: AttemptReset | WaitStarted) -> None:
        if self._chat is None:
            return
        at = self._at(monotonic())
        match event:
            case AttemptReset():
                self._chat.attempts += 1
                self._chat.span.add_event("loopctl.attempt_reset", timestamp=at)
            case WaitStarted():
                seconds = {} if event.seconds is None else {"loopctl.wait.seconds": event.seconds}
                self._chat.span.add_event("loopctl.wait_started", {"loopctl.wait.why": event.why, **seconds}, at)

    def _start_call(self, event: ToolStarted) -> None:
        now = monotonic()
        if self._chat is not None and self._chat.ended is None:
            self._chat.ended = now  # its reply was whole before its first tool began; the turn goes on
        span = self._start(f"execute_tool {one_line(event.name)}", SpanKind.INTERNAL, call_start(event.call), now)
        self._calls[event.id] = _Call(span, event.name, now)

    def _note_in_call(self, call_id: str, name: str, attributes: Attributes) -> None:
        call = self._calls.get(call_id)
        if call is not None:
            call.span.add_event(name, attributes, self._at(monotonic()))

    def _finish_call(self, record: ToolCallRecord) -> None:
        call = self._calls.pop(record.id, None)
        if call is None:
            return
        call.ended, call.record = monotonic(), record
        if record.status in (CallStatus.COMPLETED, CallStatus.DENIED):
            self._end_call(call, None, call.ended)
        else:
            self._waiting.append(call)

    def _finish_chat(self, turn: Turn) -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        now = monotonic()
        chat.ended = now if chat.ended is None else chat.ended
        chat.turn = turn
        if turn.is_whole:
            self._end_chat(chat, None, now)
        else:
            self._waiting.append(chat)

    def _start(self, name: str, kind: SpanKind, attributes: Attributes, now: float) -> Span:
        parent = set_span_in_context(self.root)
        return self.tracer.start_span(name, parent, kind, attributes, start_time=self._at(now))

    def _end_waiting(self, over: _Chat | _Call, run: Run | None, now: float) -> None:
        if isinstance(over, _Chat):
            self._end_chat(over, run, now)
        else:
            self._end_call(over, run, now)

    def _end_chat(self, chat: _Chat, run: Run | None, now: float) -> None:
        ended = now if chat.ended is None else chat.ended
        turn, model = chat.turn, chat.model
        outcome = {"loopctl.chat.outcome": chat_outcome(turn, run)}
        error = chat_error(turn, run)
        try:
            chat.span.set_attributes({**outcome, "loopctl.chat.attempts": chat.attempts})
            if turn is not None:
                chat.span.set_attributes(chat_result(turn))
                model = model_of(turn.model)
                self.metrics.note_usage(turn.usage, model)
            self.metrics.note_duration("chat", ended - chat.started, {**model, **outcome, **_error_label(error)})
        finally:
            self._end_span(chat.span, ended, error)

    def _end_call(self, call: _Call, run: Run | None, now: float) -> None:
        ended, record = now if call.ended is None else call.ended, call.record
        error = call_error(record, run)
        try:
            if record is not None:
                call.span.set_attributes(call_result(record))
                if record.attempts:  # one that was never begun took no time, and may have any name
                    labels = {"gen_ai.tool.name": call.name, "loopctl.tool.status": record.status.value}
                    self.metrics.note_duration("execute_tool", ended - call.started, {**labels, **_error_label(error)})
        finally:
            self._end_span(call.span, ended, error)

    def _end_root(self, run: Run | None, now: float) -> None:
        error = None if run is None else run_error(run)
        try:
            if run is None:
                self.root.set_attribute("loopctl.run.outcome", "unknown")
            else:
                self._describe_end(run, now)
                labels = {"loopctl.run.outcome": run.outcome, **self.agent, **_error_label(error)}
                self.metrics.note_duration("invoke_agent", now - self.began, labels)
        finally:
            text = str(run.error) if run is not None and run.error is not None else ""
            self._end_span(self.root, now, error, text)

    def _describe_end(self, run: Run, now: float) -> None:
        self.root.set_attributes(run_result(run))
        if run.stop is not None:
            cancelled_at = min(max(run.ended_at - run.stop.latency, self.began_at), self.began_at + now - self.began)
            self.root.add_event("loopctl.cancel_requested", stop_labels(run.stop), _nanoseconds(cancelled_at))

    def _end_span(self, span: Span, ended: float, error: str | None, text: str = "") -> None:
        if error is not None:
            span.set_attribute(ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR, one_line(text) or None))
        span.end(self._at(ended))

    def _at(self, moment: float) -> int:
        return _nanoseconds(self.began_at + (moment - self.began))


def _error_label(error: str | None) -> Attributes:
    return {} if error is None else {ERROR_TYPE: error}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
