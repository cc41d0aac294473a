"""Names for the tools of a server, as models can call them: the server's prefix, then the server's own name.

Invariant: two tools of one server never get the same name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

__all__ = ["prefixed", "word"]

_LONGEST = 64
"""Source: the name rule of the OpenAI and Anthropic APIs."""
_MARK = 6


def word(text: str) -> str:
    """Make a part of a name of *text*; empty if nothing of it can be used."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", text).strip("_")


def prefixed(names: Iterable[str], prefix: str) -> dict[str, str]:
    """Give each of *names* the name that models call; a later tool of the same name replaces the earlier one."""
    given: dict[str, str] = {}
    for name in names:
        plain = "_".join(filter(None, (prefix, word(name))))
        is_taken = any(plain == known for other, known in given.items() if other != name)
        if is_taken or not plain or len(plain) > _LONGEST:
            mark = hashlib.sha256(name.encode()).hexdigest()[:_MARK]
            plain = f"{plain[: _LONGEST - _MARK - 1]}_{mark}"
        given[name] = plain
    return given
