"""The checker: abandons a tool at every point where it can be abandoned, and says what that leaves.

Rules: nothing of the tool runs in the process of the caller; whatever the tool does, the check ends, and leaves
nothing behind.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from loopctl.errors import LoopError, ToolError, UsageError
from loopctl.testing._errors import SimulationError
from loopctl.testing.abandon._left import reachable
from loopctl.testing.abandon._play import Setting
from loopctl.testing.abandon._points import Author
from loopctl.testing.abandon._processes import Herd, fork
from loopctl.testing.abandon._report import AbandonReport
from loopctl.testing.abandon._stage import Files, Stage, Told
from loopctl.tools import Tool

__all__ = ["AbandonFailed", "AbandonMode", "CheckOptions", "abandon_everywhere", "check_abandon"]

AbandonMode = Literal["cancel", "kill"]
"""How a tool is abandoned: its call is cancelled, or its process is killed."""

_LIMIT = 200
_PATIENCE = 60.0
_MODES: tuple[AbandonMode, ...] = ("cancel", "kill")


class CheckOptions(TypedDict, total=False):
    """What `check_abandon` can be told; everything has a default."""

    files: Mapping[str, str | bytes] | str | os.PathLike[str] | None
    """What the folder holds before: text or bytes by path, or a folder that is copied (default None: nothing)."""
    modes: Iterable[AbandonMode]
    """`cancel`, `kill`, or both (default: both)."""
    grace: float
    """Seconds that a cancelled call gets to end (default 1)."""
    ignore: str | Sequence[str]
    """Patterns of names that do not matter, as for a shell: `*.log` (default: none)."""
    accept: Callable[[Path], bool] | None
    """Says of a folder that its state is right, too (default None)."""
    packages: Sequence[str]
    """Installed packages whose lines are points, too; else only the author's own files are (default: none)."""
    may_repeat: bool
    """It is right that a second run has an effect once more, as when it adds a line to a log (default False)."""
    limit: int
    """Points of each mode, at most; of more, some are taken, evenly (default 200)."""
    patience: float
    """Seconds that the whole tool may take (default 60)."""
    show: Callable[[int, int], object] | None
    """Told how many points are done, and of how many (default None)."""


class AbandonFailed(SimulationError):
    """A tool is not safe to abandon; the text is the report."""

    def __init__(self, report: AbandonReport) -> None:
        """Say what *report* says."""
        super().__init__(f"\n{report}")
        self.report: AbandonReport = report


def abandon_everywhere(
    tool: Tool | Callable[..., Any],
    input: Mapping[str, Any] | None = None,
    **options: Unpack[CheckOptions],
) -> AbandonReport:
    """Stop *tool* at each of its points, kill it at each of its points, and check each time what that has left.

    It runs in processes of its own, in a fresh folder each time. First as a whole, to learn its points and its effect.
    Then it is cancelled at each `await` in turn (a plain function: each time it asks whether it is to stop), as the
    engine does it, and killed at each `await` and each line. Each time: the folder must be as before or as after; no
    task, thread, process, descriptor or lock may be left; and a second run must succeed, and lead to what one run leads
    to.

    Args:
        tool: A tool, or a function that could be one.
        input: Its arguments, as a model sends them. Paths should be relative: the check sees its own folder only.
        **options: See `CheckOptions`.

    Returns:
        The report, with nothing found.

    Raises:
        AbandonFailed: It is not safe to abandon.
        UsageError: It cannot be checked: the input does not fit, or it fails without being stopped.
    """
    report = check_abandon(tool, input, **options)
    if not report.is_safe:
        raise AbandonFailed(report)
    return report


def check_abandon(
    tool: Tool | Callable[..., Any], input: Mapping[str, Any] | None = None, **options: Unpack[CheckOptions]
) -> AbandonReport:
    """Do what `abandon_everywhere` does, and give the report whatever was found.

    Args:
        tool: A tool, or a function that could be one.
        input: Its arguments, as a model sends them.
        **options: See `CheckOptions`.

    Returns:
        The report.

    Raises:
        UsageError: It cannot be checked.
    """
    unknown = options.keys() - CheckOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(CheckOptions.__annotations__)
        raise UsageError(f"there is no option {', '.join(sorted(unknown))}: there are {known}")
    checked = tool if isinstance(tool, Tool) else Tool(tool)
    modes = _checked_modes(options.get("modes", _MODES))
    files = _checked_files(options.get("files"))
    setting = _setting(checked, input or {}, options)
    limit, may_repeat = options.get("limit", _LIMIT), options.get("may_repeat", False)
    if limit < 1:
        raise UsageError(f"limit is a number of points, from 1 on, not {limit!r}")
    started = time.monotonic()

    def perform(herd: Herd, tell: Callable[[int, int], object]) -> Told:
        return Stage(setting, files, herd, tell).run(modes, limit, may_repeat=may_repeat)

    told = _in_a_process(perform, options.get("show") or (lambda *_: None))
    if told.error:
        raise UsageError(
            f"{checked.name} cannot be checked, because without being stopped {told.error.rstrip('.')}."
            " Give it an input and files with which it succeeds."
        )
    code = setting.function.__code__
    return AbandonReport(
        checked.name,
        code.co_filename,
        code.co_firstlineno,
        tuple(told.findings),
        told.stops,
        told.kills,
        time.monotonic() - started,
        (*told.notes, *_absolute(input or {})),
    )


def _checked_modes(modes: Iterable[AbandonMode]) -> tuple[AbandonMode, ...]:
    given = {modes} if isinstance(modes, str) else set(modes)
    if not given or not given <= set(_MODES):
        raise UsageError(f"modes are 'cancel', 'kill', or both, not {modes!r}")
    return tuple(mode for mode in _MODES if mode in given)


def _checked_files(files: Any) -> Files:
    if files is None or isinstance(files, Mapping):
        return files
    folder = Path(files).resolve()
    if not folder.is_dir():
        raise UsageError(f"files: {files} is not a folder")
    return folder


def _setting(tool: Tool, input: Mapping[str, Any], options: CheckOptions) -> Setting:
    if os.name != "posix":
        raise LoopError("the checker forks processes, which needs a POSIX system")
    grace, patience = options.get("grace", 1.0), options.get("patience", _PATIENCE)
    if not (0 <= grace < math.inf and 0 < patience < math.inf):
        raise UsageError(f"grace and patience are seconds, not {grace!r} and {patience!r}")
    try:
        arguments = tool.bind(input)
    except ToolError as error:
        raise UsageError(f"the input does not fit: {error}") from error
    function = _innermost(tool)
    if not hasattr(function, "__code__"):
        raise UsageError(f"{tool.name} is not written in Python: its points cannot be seen")
    ignore, accept = options.get("ignore", ()), options.get("accept")
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    try:
        author = Author(function.__code__, options.get("packages", ()))
    except ImportError as error:
        raise UsageError(f"packages: {error}") from error
    names = reachable(author, function)
    return Setting(tool, arguments, author, function, names, grace, patterns, accept, patience)


def _innermost(tool: Tool) -> Any:
    function: Any = tool
    while (inner := getattr(function, "__wrapped__", None) or getattr(function, "func", None)) is not None:
        function = inner
    return getattr(function, "__func__", function)


def _absolute(input: Mapping[str, Any]) -> list[str]:
    paths = [value for value in input.values() if isinstance(value, str) and value.startswith("/")]
    return [f"{path} lies outside of the folder that is looked at: give a relative path" for path in paths]


def _in_a_process(
    perform: Callable[[Herd, Callable[[int, int], object]], Told], show: Callable[[int, int], object]
) -> Told:
    """Do *perform* in a process with no thread and no loop but its own, and give what it tells."""
    control, hold = os.pipe()
    reading, writing = os.pipe()

    def work() -> None:
        os.close(hold)
        os.close(reading)
        _be_alone()
        with os.fdopen(writing, "wb") as stream:

            def tell(done: int, every: int) -> None:
                pickle.dump((done, every), stream)
                stream.flush()

            try:
                told = perform(Herd(control), tell)
            except Exception as error:  # what is declared of the tool is code of the author's
                told = Told(error=f"{type(error).__name__} was raised by the checker's own process: {error}")
            pickle.dump(told, stream)

    with warnings.catch_warnings():  # the fork calls nothing that another thread may have locked
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = fork(work)
    os.close(control)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            return _listen(stream, show)
    finally:
        os.close(hold)  # it ends everything, if it has not come to its end
        os.waitpid(pid, 0)


def _listen(stream: Any, show: Callable[[int, int], object]) -> Told:
    with suppress(EOFError):
        while True:
            told = pickle.load(stream)  # noqa: S301 - of our own fork
            if isinstance(told, Told):
                return told
            show(*told)
    raise LoopError("the checker's process has ended before it was done: was it killed?")


def _be_alone() -> None:
    """Take nothing of what the caller has: its loop, its handlers, its terminal, its garbage."""
    os.setsid()
    asyncio._set_running_loop(None)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.settrace(None)
    sys.setprofile(None)
    gc.collect()
    gc.freeze()
