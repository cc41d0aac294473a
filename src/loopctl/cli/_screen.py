"""One output stream as a person sees it: colours, a line that is rewritten in place, text that cannot harm a terminal.

Rules: colours only on a terminal and without NO_COLOR; a rewritten line only on a terminal that is not dumb; text of
models and tools loses its control characters on a terminal and nothing anywhere else. Everything is flushed at once.

Source: https://no-color.org; ECMA-48 (SGR, EL).
"""

from __future__ import annotations

import functools
import re
import shutil
import textwrap
import threading
import unicodedata
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, TextIO, TypeVar

from loopctl.errors import LoopError

__all__ = ["OutputLost", "Screen", "cut", "one_row", "put", "shorten"]

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ERASE = "\r\x1b[K"
# Everything below space but tab and newline, DEL, the C1 controls, and what turns the direction of text around.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ASCII = {"✓": "+", "✗": "x", "■": "#", "…": "...", "·": "-", "⋯": "..."}


P = ParamSpec("P")
R = TypeVar("R")


def _whole(method: Callable[Concatenate[Screen, P], R]) -> Callable[Concatenate[Screen, P], R]:
    """Let *method* do all of its work before another thread (a tool that prints) does any."""

    @functools.wraps(method)
    def alone(self: Screen, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class OutputLost(LoopError):
    """What was to be shown could not be written."""


class Screen:
    """Writes to one stream."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        """Write to *stream*; *environ* says what its terminal can do."""
        self._stream = stream
        self._lock = threading.RLock()
        self.is_terminal = stream.isatty()
        is_dumb = environ.get("TERM", "dumb") == "dumb"
        self.has_colors = self.is_terminal and not is_dumb and not environ.get("NO_COLOR")
        self.can_rewrite = self.is_terminal and not is_dumb
        self._is_ascii = not _can_encode(stream, "".join(_ASCII))
        self._live_line: str | None = None
        self._is_echoed = False
        self._is_beside = False
        self._resumed: str | None = None
        self._column = 0
        self.is_open = False
        """True if the last line that was written has no end yet."""

    @_whole
    def write(self, text: str, style: str = "") -> None:
        """Write *text*, words of somebody else, where the last one ended.

        Raises:
            OSError: The stream was closed at its other side.
        """
        if not text:
            return
        self.erase()
        safe = _HARMFUL.sub("", text) if self.is_terminal else text
        self._put(self.styled(safe, style))
        self._move(safe)
        self._is_echoed = self._is_beside = False
        self.is_open = not text.endswith("\n")

    @_whole
    def line(self, text: str = "", style: str = "") -> None:
        """Write *text* as a line of its own."""
        self.fresh()
        safe = _HARMFUL.sub("", text) if self.is_terminal else text
        self._put(self.styled(self._plain(safe), style) + "\n")

    def tell(self, text: str, style: str = "", indent: str = "") -> None:
        """Write *text*, a sentence of ours, as a line of its own; on a terminal it is broken between words."""
        if self.is_terminal:
            width = shutil.get_terminal_size().columns
            text = textwrap.fill(
                text,
                width,
                initial_indent=indent,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        self.line(text, style)

    def row(self, text: str) -> None:
        """Write *text* as one line, which on a terminal is cut between words so that it stays one."""
        if self.is_terminal:
            text = one_row(text, shutil.get_terminal_size().columns)
        self.line(text)

    @_whole
    def mark(self, text: str, style: str = "dim") -> None:
        """Write *text*, words of ours, at the end of what was written."""
        self.erase()
        plain = self._plain(text)
        if self.is_terminal and self._column + len(plain) > shutil.get_terminal_size().columns:
            self.fresh()
            plain = plain.lstrip()
        self._put(self.styled(plain, style))
        self._move(plain)
        self.is_open = True

    def note_echo(self) -> None:
        """Note that the terminal has shown a ^C where the last output ended."""
        if self.is_terminal and self._live_line is None:
            self._is_echoed = True
            self._column += len("^C")

    @_whole
    def fresh(self) -> None:
        """Begin a new line if the last one has no end yet."""
        self.erase()
        if self.is_open or self._is_echoed:
            self._put("\n")
        self.is_open = self._is_echoed = self._is_beside = False
        self._column = 0

    @_whole
    def beside(self, text: str, write: Callable[[str], object]) -> None:
        """Let *write* write *text*, words of a tool, without touching the line that `show` wrote."""
        live = self._live_line
        if self.is_terminal and live is None and self.is_open and not self._is_beside:
            self.fresh()
        self.erase()
        write(text)
        self.is_open = self._is_beside = not text.endswith("\n")
        self._resumed = live or self._resumed
        if not self.is_open and self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            self.show(resumed)

    @_whole
    def show(self, text: str) -> None:
        """Show *text* on a line that the next output erases; nothing where that cannot be done."""
        if not self.can_rewrite:
            return
        self.fresh()
        width = shutil.get_terminal_size().columns
        # Room for the ^C of a terminal: what it wraps could not be erased.
        self._put(self.styled(cut(self._plain(_HARMFUL.sub(" ", text)), width - 1 - len("^C")), "dim"))
        self._live_line, self._resumed = text, None

    @_whole
    def erase(self) -> None:
        """Take the line that `show` wrote away."""
        if self._live_line is not None:
            self._live_line = None
            self._is_echoed = False
            self._put(_ERASE)

    def styled(self, text: str, style: str) -> str:
        """Give *text* in *style*, where there are colours."""
        if not self.has_colors or style not in _STYLES or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def _plain(self, text: str) -> str:
        if self._is_ascii:
            for sign, plain in _ASCII.items():
                text = text.replace(sign, plain)
        return text

    def _move(self, text: str) -> None:
        """Count the columns of *text*."""
        if self.is_terminal:
            before, line_break, last = text.rpartition("\n")
            start = 0 if line_break else self._column
            del before
            self._column = (start + sum(map(_width, last))) % shutil.get_terminal_size().columns

    def _put(self, text: str) -> None:
        put(self._stream, text)


def put(stream: TextIO, text: str) -> None:
    """Write *text* to *stream*, at once.

    Raises:
        BrokenPipeError: Nobody reads it any more.
        OutputLost: It takes nothing, for another reason.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        name = str(getattr(stream, "name", "the output")).strip("<>")
        raise OutputLost(f"{name} cannot be written: {error.strerror}") from error


def shorten(text: str, length: int) -> str:
    """Give *text* on one line, in *length* characters at most."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def cut(text: str, columns: int) -> str:
    """Give as much of the beginning of *text* as fits in *columns* of a terminal."""
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > columns:
            return text[:index]
    return text


def one_row(text: str, columns: int) -> str:
    """Give *text* if it fits in *columns*, else as many of its first words as do, and a sign that it goes on."""
    if sum(map(_width, text)) <= columns:
        return text
    head = cut(text, columns - 2)
    return f"{head[: head.rfind(' ')] if ' ' in head.strip() else head} …"


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
