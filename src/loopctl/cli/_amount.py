"""How much text there was, as a person would say it: words, or characters where words have no spaces between them."""

from __future__ import annotations

import re
from typing import Self

__all__ = ["Amount"]

# Thai to Tibetan, Burmese, Khmer, kana, Han. Korean is written with spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Amount:
    """Counts text that comes in pieces."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.words = 0
        self._characters = 0
        self._unspaced = 0
        self._in_word = False

    @classmethod
    def of(cls, *texts: str) -> Self:
        """Count whole *texts*."""
        amount = cls()
        for text in texts:
            amount.add(text)
            amount.part()
        return amount

    def add(self, text: str) -> None:
        """Count the next piece; a word may go on in it."""
        if not text:
            return
        words = text.split()
        goes_on = bool(words) and self._in_word and not text[0].isspace()
        self.words += len(words) - goes_on
        self._characters += sum(map(len, words))
        self._unspaced += len(_UNSPACED.findall(text))
        self._in_word = not text[-1].isspace()

    def part(self) -> None:
        """Let the next piece begin a word of its own."""
        self._in_word = False

    def __bool__(self) -> bool:
        """True if there was any text."""
        return self.words > 0

    def __str__(self) -> str:
        """Say it in words."""
        if self._unspaced * 2 > self._characters:
            return _counted(self._characters, "character")
        return _counted(self.words, "word")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
