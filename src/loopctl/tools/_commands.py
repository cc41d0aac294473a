"""Commands that a tool runs: what they are told, what is kept of their output, how their end is told.

Rules: a command ends with the call that ran it, and all that came of it; its output is bounded; what cannot be ended
is handed over as a straggler and never claimed dead.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from loopctl.cancel import CancelToken
from loopctl.concurrency import (
    Command,
    Ending,
    Grace,
    OutputStream,
    Patience,
    ProcessWork,
    Straggler,
    check_seconds,
    supervise,
)
from loopctl.errors import LoopError, ToolError, UsageError
from loopctl.record import Checkpoint, Urgency

__all__ = ["Commands", "Output", "ProcessOptions", "ProcessResult", "ended_with"]

_LIMIT = 1_000_000
_LONGEST_LINE = 8192
_LAST_WORDS = 1000
_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A lone carriage return ends a line too: that is how progress is drawn. At the end of what is known it may be half."""


class ProcessOptions(TypedDict, total=False):
    """What `ToolContext.run_process` can be told; everything has a default."""

    cwd: str | os.PathLike[str] | None
    """The folder that it runs in (default None: ours)."""
    env: Mapping[str, str] | None
    """All of its environment variables (default None: a copy of ours)."""
    input: str | bytes | None
    """What it reads from its standard input (default None: nothing, at once at its end)."""
    check: bool
    """Raise if it ends with another code than 0 (default False)."""
    timeout: float | None
    """Seconds after which it is stopped (default None: no limit)."""
    output_limit: int
    """Bytes that are kept of each of its two outputs, the first and the last half of them (default 1 000 000)."""
    on_output: Callable[[str, Literal["stdout", "stderr"]], object] | None
    """Called on the event loop for each line, without its end, as it comes, with the name of the output (default None).
    If it raises, the command is stopped and the error is raised."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended."""

    argv: tuple[str, ...]
    """What was run."""
    returncode: int
    """What it ended with; negative: the signal that killed it."""
    stdout: str
    """Its output, as UTF-8; where bytes were left out, the text says how many."""
    stderr: str
    """Its other output, in the same way."""
    omitted: int
    """Bytes of output that were left out."""
    escaped: tuple[int, ...]
    """The ids of processes that came of it and still run, because they left its session. Linux only."""

    @property
    def is_truncated(self) -> bool:
        """True if some of the output was left out."""
        return self.omitted > 0


class Commands:
    """What running commands needs of the engine."""

    __slots__ = ("grace", "keep")

    def __init__(self, grace: float = 1.0) -> None:
        """Give stopped commands *grace* seconds; they are killed at 80 % of them."""
        self.grace: float = grace
        self.keep: Callable[[Straggler], None] = lambda _: None
        """Told of what still runs."""

    async def run(self, argv: Sequence[str | os.PathLike[str]], token: CancelToken, options: Any) -> ProcessResult:
        """See `ToolContext.run_process`.

        Cancellation:
            See there.
        """
        unknown = options.keys() - ProcessOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(ProcessOptions.__annotations__)
            raise UsageError(f"run_process has no option {', '.join(sorted(unknown))}: it has {known}.")
        command = _command(argv, options)
        output = Output(options.get("output_limit", _LIMIT), options.get("on_output"))
        timeout = options.get("timeout")
        work = ProcessWork(command, self.grace, output.take)
        ending = await supervise(
            work,
            token,
            grace=Grace(self.grace),
            at=Checkpoint.TOOL_CALL,
            refused_from=Urgency.STOP,
            patience=None if timeout is None else Patience(total=check_seconds("timeout", timeout)),
        )
        if ending.stopped_by is not None and work.is_left():
            self.keep(work.straggler())
        ending.raise_if_stopped()
        return _result(command, ending, output, options)


def _result(command: Command, ending: Ending, output: Output, options: Any) -> ProcessResult:
    if ending.stopped_by == "timeout":
        seconds = f"{options['timeout']:g} s"
        raise TimeoutError(f"`{command}` did not end within {seconds} and was stopped{output.last_words()}")
    if ending.error is not None:
        raise ending.error
    output.finish()
    end = ending.value
    if options.get("check", False) and end.returncode != 0:
        raise ToolError(f"`{command}` {ended_with(end.returncode)}{output.last_words()}")
    words = tuple(os.fsdecode(word) for word in command.argv)
    return ProcessResult(
        words, end.returncode, output.text("stdout"), output.text("stderr"), output.omitted, end.escaped
    )


def ended_with(returncode: int) -> str:
    """Say how a process ended."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


class Output:
    """What is kept of the two outputs of a process, and told while it runs."""

    def __init__(self, limit: int = _LIMIT, on_line: Callable[[str, OutputStream], object] | None = None) -> None:
        """Keep *limit* bytes of each.

        Raises:
            UsageError: *limit* is no number of bytes, or *on_line* cannot be called.
        """
        given: object = limit
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise UsageError(f"output_limit is a number of bytes, 0 or more, not {limit!r}")
        if on_line is not None and not callable(on_line):
            raise UsageError(f"on_output is a function of a line and the name of the output, not {on_line!r}")
        self._kept: dict[OutputStream, _Kept] = {name: _Kept(limit) for name in ("stdout", "stderr")}
        self._lines: dict[OutputStream, _Lines] = {}
        if on_line is not None:
            self._lines = {name: _Lines(name, on_line) for name in self._kept}

    def take(self, stream: OutputStream, portion: bytes) -> None:
        """Note a portion."""
        self._kept[stream].add(portion)
        if self._lines:
            self._lines[stream].add(portion)

    def finish(self) -> None:
        """Tell of the last line, if it had no end."""
        for lines in self._lines.values():
            lines.add(b"", is_last=True)

    def text(self, stream: OutputStream) -> str:
        """What was kept, with a note where something was left out."""
        return self._kept[stream].text()

    @property
    def omitted(self) -> int:
        """Bytes that were left out."""
        return sum(kept.omitted for kept in self._kept.values())

    def last_words(self) -> str:
        """The end of what it wrote, for an error text; empty if it wrote nothing."""
        text = (self.text("stderr").strip() or self.text("stdout").strip())[-_LAST_WORDS:]
        return f": {text}" if text else ""


class _Kept:
    """The beginning and the end of a stream of bytes."""

    def __init__(self, limit: int) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._sizes = limit - limit // 2, limit // 2
        self.omitted = 0

    def add(self, portion: bytes) -> None:
        room = self._sizes[0] - len(self._first)
        self._first += portion[:room]
        self._last += portion[room:]
        excess = len(self._last) - self._sizes[1]
        if excess > 0:
            del self._last[:excess]
            self.omitted += excess

    def text(self) -> str:
        if not self.omitted:
            return (self._first + self._last).decode(errors="replace")
        first, last = (part.decode(errors="replace") for part in (self._first, self._last))
        return f"{first}\n[… {self.omitted} bytes left out …]\n{last}"


class _Lines:
    """Cuts a stream into lines."""

    def __init__(self, name: OutputStream, tell: Callable[[str, OutputStream], object]) -> None:
        self._name = name
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def add(self, portion: bytes, *, is_last: bool = False) -> None:
        *lines, self._rest = _LINE_END.split(self._rest + self._decoder.decode(portion, final=is_last))
        if self._rest and (is_last or len(self._rest) > _LONGEST_LINE):
            lines.append(self._rest.removesuffix("\r"))
            self._rest = ""
        for line in lines:
            self._tell(line, self._name)


def _command(words: Any, options: Any) -> Command:
    if os.name != "posix":
        raise LoopError("run_process needs the process groups of a POSIX system: there are none here")
    if isinstance(words, str | bytes) or not isinstance(words, Sequence) or not words:
        raise UsageError(
            f"run_process takes a list of words, as ['git', 'log'], not {words!r}. For shell: ['sh', '-c', line]."
        )
    env = os.environb if (given := options.get("env")) is None else _environment(given)
    cwd = options.get("cwd")
    return Command(
        tuple(_encoded(word) for word in words),
        dict(env),
        None if cwd is None else _encoded(cwd),
        _input(options.get("input")),
    )


def _input(given: object) -> bytes | None:
    try:
        data = given.encode() if isinstance(given, str) else given
    except UnicodeEncodeError as error:
        raise UsageError(f"run_process: input={given!r} has no form in UTF-8: give bytes") from error
    if data is None or isinstance(data, bytes):
        return data
    raise UsageError(f"run_process: input is a text or bytes, not {given!r}")


def _environment(given: Mapping[str, str]) -> dict[bytes, bytes]:
    if not isinstance(given, Mapping):
        raise UsageError(f"run_process: env is a mapping of all environment variables, not {given!r}")
    env = {_encoded(name): _encoded(value) for name, value in given.items()}
    wrong = [name for name in env if not name or b"=" in name]
    if wrong:
        raise UsageError(f"run_process: {wrong[0]!r} cannot be the name of an environment variable")
    return env


def _encoded(word: Any) -> bytes:
    try:
        encoded = os.fsencode(word)
    except (TypeError, UnicodeEncodeError) as error:
        raise UsageError(f"run_process: {word!r} is no text that a command can be given") from error
    if b"\0" in encoded:
        raise UsageError(f"run_process: {word!r} holds a zero, which no command can be given")
    return encoded
