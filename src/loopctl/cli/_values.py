"""What an option's value may be: each reads a text, or says in one line why it cannot be."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from typing import Any

__all__ = ["address", "count", "grace", "json_value", "port", "seconds"]


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def seconds(text: str) -> float:
    """Read seconds, more than 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds, more than 0")
    return number


def grace(text: str) -> float:
    """Read seconds, 0 too."""
    return 0.0 if text in {"0", "0.0"} else seconds(text)


def address(text: str) -> tuple[str, int]:
    """Read a port, or a host and a port."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise ArgumentTypeError(f"{text!r} is not a port, nor a host and a port")
    return host.strip("[]") or "127.0.0.1", int(port)


def port(text: str) -> int:
    """Read a port; 0 too."""
    if not (text.isascii() and text.isdecimal()) or int(text) > 65535:  # noqa: PLR2004 - the last port
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def json_value(text: str) -> Any:
    """Read JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not JSON: a text needs its own quotes, '\"so\"'") from None
