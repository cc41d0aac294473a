"""Events as JSON objects, one for each line of `loopctl run --events`.

Rules: `event` is the name of the class in `loopctl`, the other keys are its fields; records are written as in
`Run.to_json`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from loopctl.record import Event

__all__ = ["event_to_json", "json_line"]


def event_to_json(event: Event) -> dict[str, Any]:
    """Give *event* as a JSON object."""
    value: dict[str, Any] = {"event": type(event).__name__}
    for field in fields(event):
        found = getattr(event, field.name)
        value[field.name] = found.to_json() if hasattr(found, "to_json") else found
    return value


def json_line(value: dict[str, Any]) -> str:
    """Give *value* as one line of JSON; what JSON has no word for is written as text."""
    return json.dumps(value, ensure_ascii=False, default=str) + "\n"
