"""Events as JSON objects, as `loopctl run --events` prints them and the web sends them.

Rules: `event` is the name of the class in `loopctl`, the other keys are its fields; records are written as in
`Run.to_json`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from loopctl.record._events import Event

__all__ = ["event_to_json"]


def event_to_json(event: Event) -> dict[str, Any]:
    """Give *event* as a JSON object."""
    value: dict[str, Any] = {"event": type(event).__name__}
    for field in fields(event):
        found = getattr(event, field.name)
        value[field.name] = found.to_json() if hasattr(found, "to_json") else found
    return value
