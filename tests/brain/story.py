"""Plays a golden transcript: commands, a line `----`, and exactly what the brain did.

A block is one command line, its indented lines, `----`, and the expected lines up to an empty line. Lines that begin
with `#` between blocks are prose. The commands:

    brain tools=a,b max_turns=3        a new brain; also models=a,b stream=no, and the numbers of a ModelRecovery
    moment now=60 jitter=0.1           of the inputs from here on; the chain counts what the brain reports
    history                            the conversation before; messages below
    started "text"
    replied STOP_REASON                blocks below: text "…", thinking "…", call ID NAME {json}, call ID NAME raw "…"
    failed "message" key=json …
    waited
    finished                           results below: ID "…", or ID error "…"
    cancelled ORIGIN "message" CHECKPOINT
    renamed STOP_REASON                as `replied`, through `with_unique_ids` first
    frozen                             through JSON and back into a new brain; prints what it waits for
    snapshot                           prints the JSON
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from loopctl.brain import (
    Brain,
    CallModel,
    CancelRequested,
    Effect,
    Finish,
    Input,
    Limits,
    ModelFailed,
    ModelReplied,
    RefuseCalls,
    Report,
    ResetAttempt,
    RunTools,
    Started,
    ToolsFinished,
    Wait,
    Waited,
    with_unique_ids,
)
from loopctl.errors import LoopError
from loopctl.messages import (
    AssistantMessage,
    Block,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from loopctl.record import CancelReason, Checkpoint
from loopctl.recovery import ModelRecovery
from loopctl.testing import Stepper, Taken

__all__ = ["Story", "play"]

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\{.*\}|\S+')


def play(transcript: str) -> tuple[str, Story]:
    """Play *transcript*; give it back with what really happened, and the story's log."""
    story = Story()
    out: list[str] = []
    lines = iter(transcript.splitlines())
    for line in lines:
        if not line or line.startswith("#"):
            out.append(line)
            continue
        command = [line, *_until(lines, "----")]
        list(_until(lines, ""))
        out += [*command, "----", *story.perform(command), ""]
    return "\n".join(out).rstrip("\n") + "\n", story


def _until(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line == end:
            return
        yield line


class Story:
    """One brain after the other, and the steps they took."""

    def __init__(self) -> None:
        self.log: list[Taken] = []
        self.stepper = Stepper()

    def perform(self, command: list[str]) -> list[str]:
        """Do one command; give the lines that tell what came of it."""
        name, *words = _WORD.findall(command[0])
        try:
            return _COMMANDS[name](self, words, [_WORD.findall(line) for line in command[1:]])
        except LoopError as error:
            return [f"{type(error).__name__}: {error}", self._place()]

    def _brain(self, words: list[str], _below: list[list[str]]) -> list[str]:
        options = dict(word.split("=") for word in words)
        numbers = {key: json.loads(value) for key, value in options.items() if hasattr(ModelRecovery, key)}
        self.stepper = Stepper(
            tools=filter(None, options.get("tools", "").split(",")),
            models=options.get("models", "model").split(","),
            limits=Limits(int(options["max_turns"])) if "max_turns" in options else None,
            recovery=ModelRecovery(**numbers),
            is_streaming="stream" not in options,
        )
        self.stepper.log = self.log
        return [self._place()]

    def _moment(self, words: list[str], _below: list[list[str]]) -> list[str]:
        for key, value in (word.split("=") for word in words):
            setattr(self.stepper, key, json.loads(value))
        return [f"the first model is {self.stepper.chain.state(self.stepper.now).name}"]

    def _waited(self, _words: list[str], _below: list[list[str]]) -> list[str]:
        return self._step(Waited())

    def _history(self, _words: list[str], below: list[list[str]]) -> list[str]:
        read: dict[str, Callable[[list[str]], Message]] = {
            "user": lambda words: UserMessage(json.loads(words[0])),
            "assistant": lambda words: AssistantMessage((_block(words),)),
            "tool": lambda words: ToolMessage((_result(words),)),
        }
        self.stepper.history = tuple(read[words[0]](words[1:]) for words in below)
        return [f"{len(self.stepper.history)} messages"]

    def _started(self, words: list[str], _below: list[list[str]]) -> list[str]:
        return self._step(Started(self.stepper.history, UserMessage(json.loads(words[0])), self.stepper.moment))

    def _replied(self, words: list[str], below: list[list[str]]) -> list[str]:
        return self._step(ModelReplied(AssistantMessage(tuple(map(_block, below))), words[0], self.stepper.moment))

    def _renamed(self, words: list[str], below: list[list[str]]) -> list[str]:
        reply = with_unique_ids(AssistantMessage(tuple(map(_block, below))), self.stepper.brain.call_ids)
        return self._step(ModelReplied(reply, words[0], self.stepper.moment))

    def _failed(self, words: list[str], _below: list[list[str]]) -> list[str]:
        details = {key: json.loads(value) for key, value in (word.split("=") for word in words[1:])}
        return self._step(ModelFailed(json.loads(words[0]), **details, moment=self.stepper.moment))

    def _finished(self, _words: list[str], below: list[list[str]]) -> list[str]:
        return self._step(ToolsFinished(tuple(map(_result, below)), self.stepper.moment))

    def _cancelled(self, words: list[str], _below: list[list[str]]) -> list[str]:
        origin, message, checkpoint = words
        return self._step(CancelRequested(CancelReason(origin, json.loads(message)), Checkpoint[checkpoint]))

    def _frozen(self, _words: list[str], _below: list[list[str]]) -> list[str]:
        self.stepper.brain = Brain.thaw(json.loads(json.dumps(self.stepper.brain.freeze())))
        waits_for = self.stepper.brain.pending
        return [*(_effect_lines(waits_for) if waits_for else ["nothing pending"]), self._place()]

    def _snapshot(self, _words: list[str], _below: list[list[str]]) -> list[str]:
        return json.dumps(self.stepper.brain.freeze(), indent=1).splitlines()

    def _step(self, fact: Input) -> list[str]:
        effects = self.stepper.step(fact)
        lines = [line for effect in effects for line in _effect_lines(effect)] or ["no effects"]
        return [*lines, self._place()]

    def _place(self) -> str:
        return f"-> {self.stepper.brain.phase.name}, turn {self.stepper.brain.turn}"


_COMMANDS: dict[str, Callable[[Story, list[str], list[list[str]]], list[str]]] = {
    name: getattr(Story, f"_{name}")
    for name in (
        "brain",
        "moment",
        "history",
        "started",
        "waited",
        "replied",
        "renamed",
        "failed",
        "finished",
        "cancelled",
        "frozen",
        "snapshot",
    )
}


def _block(words: list[str]) -> Block:
    match words:
        case ["text", text]:
            return Text(json.loads(text))
        case ["thinking", text]:
            return Thinking(json.loads(text))
        case ["call", call_id, name, "raw", raw]:
            return ToolCall(_id(call_id), name, {}, json.loads(raw))
        case ["call", call_id, name, arguments]:
            return ToolCall(_id(call_id), name, json.loads(arguments))
    raise ValueError(words)


def _id(word: str) -> str:
    return "" if word == '""' else word


def _result(words: list[str]) -> ToolResult:
    return ToolResult(words[0], json.loads(words[-1]), words[1] == "error")


def _effect_lines(effect: Effect) -> list[str]:
    match effect:
        case CallModel(turn, messages, route, mode):
            probe = " as a probe" if route.is_probe else ""
            how = f"{f' model {route.index}' if route.index else ''}{f' by {mode}' if mode != 'stream' else ''}{probe}"
            return [
                f"CallModel turn {turn}{how}",
                *_indented(line for message in messages for line in _message(message)),
            ]
        case RefuseCalls(results):
            return ["RefuseCalls", *_indented(map(_result_line, results))]
        case RunTools(turn, calls):
            return [f"RunTools turn {turn}", *_indented(map(_block_line, calls))]
        case _:
            return [_effect_line(effect)]


def _effect_line(effect: Finish | Report | ResetAttempt | Wait) -> str:
    match effect:
        case Finish(outcome, output):
            return f"Finish {outcome} {json.dumps(output)}"
        case Report(route, how):
            return f"Report model {route.index} {how}"
        case ResetAttempt(turn):
            return f"ResetAttempt turn {turn}"
        case Wait(seconds):
            return f"Wait {seconds:g}"


def _message(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(text):
            yield f"user {json.dumps(text)}"
        case AssistantMessage(blocks):
            yield from (f"assistant {_block_line(block)}" for block in blocks)
        case ToolMessage(results):
            yield from (f"tool {_result_line(result)}" for result in results)


def _block_line(block: Block) -> str:
    match block:
        case Text(text):
            return f"text {json.dumps(text)}"
        case Thinking(text):
            return f"thinking {json.dumps(text)}"
        case ToolCall(call_id, name, arguments, None):
            return f"call {call_id} {name} {json.dumps(dict(arguments))}"
        case ToolCall(call_id, name, _, raw):
            return f"call {call_id} {name} raw {json.dumps(raw)}"


def _result_line(result: ToolResult) -> str:
    return f"{result.call_id} {'error ' if result.is_error else ''}{json.dumps(result.content)}"


def _indented(lines: Iterator[str]) -> list[str]:
    return [f"  {line}" for line in lines]
