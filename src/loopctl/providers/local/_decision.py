"""Owns the decision that stands for tool calling: which tool, with which arguments, or none.

A small model does not follow a tool protocol. What it can do is to fill in a form: its output is constrained, token by
token, to one of the JSON objects that the offered tools allow. The prompt shows it each tool used once or twice.

Rules: pure. The words of the examples were chosen by measuring SmolLM2-135M on questions with and without need for a
tool; with four tools it is right 10 times of 14. A message that says "use <tool>" is taken at its word: then there is
no "none".
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loopctl.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from loopctl.model import ModelRequest, ToolSpec
from loopctl.providers.local._transcript import call_as_text, current_turn, result_lines

__all__ = ["Decision", "decision_body", "decision_request", "is_decision_due", "read_decision"]

_NONE = "none"
_NONE_TEXT = '{"tool": "none"}'
_LIMIT = 1024  # tokens of a decision: a model that rambles inside of a string must end
_EARLIER_TURNS = 3
_EARLIER_CHARACTERS = 300
_SAMPLES: Mapping[str, tuple[Any, Any]] = {
    "string": ("example", "test"),
    "integer": (12, 5),
    "number": (12, 5),
    "boolean": (True, False),
    "array": ([], []),
    "object": ({}, {}),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """A tool to call."""

    tool: str
    arguments: str
    """JSON text of the arguments object."""


def is_decision_due(request: ModelRequest, *, rounds: int) -> bool:
    """Tell whether tools are on offer and this user turn has had fewer than *rounds* rounds of them."""
    done = sum(isinstance(message, ToolMessage) for message in current_turn(request.messages))
    return bool(request.tools) and done < rounds


def decision_request(request: ModelRequest) -> ModelRequest:
    """Give the request whose answer, constrained by `decision_body`, is the decision."""
    messages = [message for spec in request.tools for message in _examples(spec)]
    greeting = _shot("Hello, how are you?", _NONE_TEXT)
    return ModelRequest(_instructions(request.tools), (*greeting, *messages, *_turns(request.messages)))


def decision_body(request: ModelRequest) -> dict[str, Any]:
    """Give what a decision's request needs beside its messages."""
    return {
        "temperature": 0,
        "max_tokens": _LIMIT,
        "response_format": {"type": "json_schema", "json_schema": {"name": "decision", "schema": _schema(request)}},
    }


def read_decision(text: str, tools: tuple[ToolSpec, ...]) -> Decision | None:
    """Read what the model decided; None for no tool, and for a form that was not filled in to its end."""
    try:
        form = json.loads(text)
    except ValueError:
        return None
    if not isinstance(form, dict) or form.get("tool") not in {spec.name for spec in tools}:
        return None
    return Decision(form["tool"], json.dumps(form.get("arguments", {}), ensure_ascii=False))


def _instructions(tools: tuple[ToolSpec, ...]) -> str:
    lines = ["You decide which tool to use. Answer with JSON only.", "Tools:"]
    for spec in tools:
        parameters = ", ".join(f"{name}: {_type(schema)}" for name, schema in _properties(spec).items())
        lines.append(f"- {spec.name}({parameters}): {_first_line(spec.description)}")
    return "\n".join([*lines, f"- {_NONE}: no tool is needed"])


def _examples(spec: ToolSpec) -> Iterator[Message]:
    """Show *spec* used twice, and after each time a message that needs no tool."""
    description = _first_line(spec.description).rstrip(".")
    noun = re.split(r"[_\-. ]+", spec.name)[-1]
    asked = description[:1].lower() + description[1:] if description else f"use {spec.name}"
    for index, (question, chat) in enumerate(
        (
            (f"What is the {noun} of {{}}?", "Tell me a story."),
            (f"Can you {asked}? I mean {{}}.", "Who wrote this book?"),
        )
    ):
        arguments = {name: _sample(schema, index) for name, schema in _properties(spec).items()}
        values = " and ".join(str(value) for value in arguments.values()) or "this"
        yield from _shot(question.replace("{}", values), call_as_text(spec.name, arguments))
        yield from _shot(chat, _NONE_TEXT)


def _turns(messages: tuple[Message, ...]) -> Iterator[Message]:
    """Tell the last turns as what was asked and what was decided, then the open one."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    for start, end in list(itertools.pairwise(starts))[-_EARLIER_TURNS:]:
        asked, *rest = messages[start:end]
        calls = [call for message in rest if isinstance(message, AssistantMessage) for call in message.tool_calls]
        decided = call_as_text(calls[0].name, dict(calls[0].arguments)) if calls else _NONE_TEXT
        assert isinstance(asked, UserMessage)
        yield from _shot(asked.text[:_EARLIER_CHARACTERS], decided)
    known: dict[str, ToolCall] = {}
    for message in current_turn(messages):
        if isinstance(message, AssistantMessage):
            known |= {call.id: call for call in message.tool_calls}
            decided = "\n".join(call_as_text(call.name, dict(call.arguments)) for call in message.tool_calls)
            yield AssistantMessage((Text(decided or message.text),))
        elif isinstance(message, ToolMessage):
            yield UserMessage(f"{result_lines(message, known)}\nWhich tool is needed next?")
        else:
            yield message


def _shot(asked: str, decided: str) -> tuple[Message, Message]:
    return UserMessage(asked), AssistantMessage((Text(decided),))


def _schema(request: ModelRequest) -> dict[str, Any]:
    """Allow one of the tools, or none; only the tools that the message asks for by name, if it does."""
    opening = current_turn(request.messages)
    asked = opening[0].text if len(opening) == 1 and isinstance(opening[0], UserMessage) else ""
    named = tuple(spec for spec in request.tools if _is_asked_for(spec.name, asked))
    definitions: dict[str, Any] = {}
    choices = []
    for index, spec in enumerate(named or request.tools):
        parameters = _lifted(dict(spec.parameters), f"t{index}_", definitions)
        choices.append(_form({"tool": {"const": spec.name}, "arguments": parameters}))
    if not named:
        choices.append(_form({"tool": {"const": _NONE}}))
    return {"anyOf": choices} | ({"$defs": definitions} if definitions else {})


def _is_asked_for(name: str, text: str) -> bool:
    """Tell whether *text* says to use the tool *name*: its bare name is not enough, it may be a word or a question."""
    order = rf"\b(?:use|call|run)\s+(?:the\s+)?(?:tool\s+)?[`'\"]?{re.escape(name)}(?!\w)"
    refusal = r"(?:\bnot|n't|\bnever)\s+"
    return re.search(rf"(?<!\w){order}", text, re.IGNORECASE) is not None and not re.search(
        refusal + order, text, re.IGNORECASE
    )


def _form(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _lifted(schema: dict[str, Any], prefix: str, definitions: dict[str, Any]) -> Any:
    """Move the definitions of *schema* to the root's, as `$ref` counts from the root, under names of their own."""
    own = schema.pop("$defs", {})
    definitions |= {prefix + name: _renamed(definition, prefix) for name, definition in own.items()}
    return _renamed(schema, prefix)


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: f"#/$defs/{prefix}{inner.removeprefix('#/$defs/')}"
            if key == "$ref" and isinstance(inner, str)
            else _renamed(inner, prefix)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_renamed(inner, prefix) for inner in value]
    return value


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = spec.parameters.get("properties", {})
    return properties


def _type(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "value"))


def _sample(schema: Mapping[str, Any], index: int) -> Any:
    for key in ("examples", "enum"):
        if values := schema.get(key):
            return values[index % len(values)]
    return _SAMPLES.get(_type(schema), ("example", "test"))[index]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
