"""Owns the reading of server-sent events: bytes in, in any portions, the `data` of whole events out.

Rules: no I/O. The result does not depend on where the portions are cut. Field names other than `data`, and comments,
are skipped: no provider needs them. Works on bytes, because decoding text first costs more than all the rest.

Source: WHATWG HTML, section 9.2.6 (lines end with LF, CR or CRLF; one BOM may come first; the `data` lines of an
event are joined by LF; an empty line ends the event).
"""

from __future__ import annotations

__all__ = ["SseDecoder"]

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Cuts one stream into events."""

    __slots__ = ("_data", "_is_after_cr", "_is_first_line", "_partial")

    def __init__(self) -> None:
        self._partial: list[bytes] = []  # a list: a long line in small portions must not be copied for each of them
        self._data: list[bytes] = []
        self._is_after_cr = False
        self._is_first_line = True

    def feed(self, portion: bytes) -> list[bytes]:
        """Take the next *portion* and give the data of each event that it completes."""
        if self._is_after_cr or b"\r" in portion:
            portion = self._without_cr(portion)
        if b"\n" not in portion:
            self._partial.append(portion)
            return []
        if self._partial:
            self._partial.append(portion)
            portion = b"".join(self._partial)
        *lines, rest = portion.split(b"\n")
        self._partial = [rest] if rest else []
        if self._is_first_line:
            self._is_first_line = False
            lines[0] = lines[0].removeprefix(_BOM)
        return self._events(lines)

    def end(self) -> list[bytes]:
        """Give the data of an event that the end of the stream left open, if there is any.

        The specification drops it. Servers are known to leave out the last empty line; whether what is there is
        whole can only be told by who decodes it.
        """
        rest, self._partial = b"".join(self._partial), []
        return self._events([rest, b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events

    def _without_cr(self, portion: bytes) -> bytes:
        if self._is_after_cr and portion:
            self._is_after_cr = False
            portion = portion.removeprefix(b"\n")  # the CR before it has ended the line already
        self._is_after_cr = portion.endswith(b"\r") or (self._is_after_cr and not portion)
        return portion.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
