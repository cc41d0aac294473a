"""A JSON object as one line, as the commands print them."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_line"]


def json_line(value: dict[str, Any]) -> str:
    """Give *value* as one line of JSON; what JSON has no word for is written as text."""
    return json.dumps(value, ensure_ascii=False, default=str) + "\n"
