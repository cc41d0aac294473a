"""The port to a language model: what is asked, what comes back, and the protocol that a model implements."""

from loopctl.model._delta import Delta, ReplyEnd, StopReason, TextPart, ThinkingPart, ToolCallPart, UsagePart
from loopctl.model._protocol import Model
from loopctl.model._request import ModelRequest, ToolSpec

__all__ = [
    "Delta",
    "Model",
    "ModelRequest",
    "ReplyEnd",
    "StopReason",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolSpec",
    "UsagePart",
]
