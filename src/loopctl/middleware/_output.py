"""Change what is told of a tool: shorten it, take secrets out of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from loopctl.concurrency import check_count
from loopctl.errors import UsageError

__all__ = ["OutputLimit", "Redact"]


class OutputLimit:
    """Cuts long results, and says so: the beginning and the end stay."""

    def __init__(self, characters: int) -> None:
        """Let *characters*, 1 or more, of each text through.

        Raises:
            UsageError: *characters* is no such number.
        """
        self.characters: int = check_count("OutputLimit.characters", characters)

    def tool_text(self, text: str) -> str:
        """Cut the middle out of *text* if it is too long."""
        limit = self.characters
        if len(text) <= limit:
            return text
        tail = limit // 4
        said = f"\n[… {len(text) - limit} of {len(text)} characters left out …]\n"
        return text[: limit - tail] + said + text[len(text) - tail :]


class Redact:
    """Takes what matches its patterns out of results, errors and progress, before anybody sees them.

    It must be inside of what cuts texts, which means after it in `middleware=`: a secret that was cut in two matches no
    pattern. Arguments are the model's own words and are not changed; the exceptions and values that middleware and
    recovery strategies see are the tool's own.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]], *, instead: str = "[redacted]") -> None:
        """Put *instead* in the place of each match of *patterns*.

        Raises:
            UsageError: One is no regular expression, or *instead* is no text.
        """
        if isinstance(patterns, str):
            raise UsageError(f"Redact takes a list of patterns: give [{patterns!r}]")
        try:
            self.patterns: tuple[re.Pattern[str], ...] = tuple(map(re.compile, patterns))
        except (re.error, TypeError) as error:
            raise UsageError(f"Redact takes regular expressions: {error}") from error
        if not all(isinstance(pattern.pattern, str) for pattern in self.patterns):
            raise UsageError("Redact takes regular expressions of text, not of bytes")
        given: object = instead
        if not isinstance(given, str):
            raise UsageError(f"Redact(instead=…) is a text, not {given!r}")
        self.instead: str = instead

    def tool_text(self, text: str) -> str:
        """Give *text* without what matches."""
        for pattern in self.patterns:
            text = pattern.sub(lambda _: self.instead, text)
        return text
