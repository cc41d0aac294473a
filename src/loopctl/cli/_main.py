"""The frame around all commands: options, signals, the event loop, errors as one line, an end that is bounded.

Rules: an error of ours, of a model or of a tool is one line on stderr and an exit code, never a traceback, unless
LOOPCTL_DEBUG is set; signal handlers are there from the first thing that can wait to the last.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import TextIO

from loopctl.cli._acp import acp
from loopctl.cli._agent import make_agent
from loopctl.cli._arguments import parse
from loopctl.cli._chat import chat
from loopctl.cli._exit import FAILED, INTERRUPTED, USAGE, code_of_reason, leave, silence
from loopctl.cli._listening import listening
from loopctl.cli._options import (
    AnyOptions,
    CancelOptions,
    CheckOptions,
    EffectsOptions,
    McpOptions,
    Options,
    PsOptions,
    RunsOptions,
    ServeOptions,
    SessionsOptions,
)
from loopctl.cli._presses import Presses
from loopctl.cli._report import one_line
from loopctl.cli._run import run_once
from loopctl.cli._servers import served_tools
from loopctl.concurrency import interrupts, run
from loopctl.driver import Agent, Session
from loopctl.errors import Cancelled, LoopError, UsageError
from loopctl.tools import ToolRegistry

__all__ = ["command"]

_DEBUG = "LOOPCTL_DEBUG"


def command(argv: Sequence[str] | None = None) -> int:
    """Run the command; see `loopctl.cli.main`.

    Raises:
        SystemExit: The command line is wrong, or asked for help.
    """
    options = parse(argv)
    _prepare_streams()
    presses = Presses()
    with interrupts(presses):
        code, has_loose_ends = _guarded(options, presses)
        # Who has pressed once may press again: the interpreter's own end would answer that with a traceback.
        return leave(code, has_loose_ends=has_loose_ends or presses.is_used)


def _guarded(options: AnyOptions, presses: Presses) -> tuple[int, bool]:
    try:
        return _perform(options, presses)
    except KeyboardInterrupt:
        return INTERRUPTED, True
    except UsageError as error:
        return _say(error, str(error), USAGE), False
    except LoopError as error:
        return _say(error, str(error), FAILED), False
    except BrokenPipeError:
        silence(sys.stdout)
        return FAILED, True
    except Exception as error:
        text = f"a fault in loopctl: {type(error).__name__}: {error}. {_DEBUG}=1 shows where; please report it"
        return _say(error, text, FAILED), True


def _perform(options: AnyOptions, presses: Presses) -> tuple[int, bool]:
    _check_open(sys.stdout, "stdout")
    match options:
        case EffectsOptions() | RunsOptions() | SessionsOptions():
            return _look_into(options), False
        case CheckOptions():
            return _check(options), False
        case McpOptions():
            return _serve_mcp(options, presses)
        case ServeOptions():
            return _serve(options, presses)
        case PsOptions() | CancelOptions():
            return _ask_others(options), False
        case Options():
            return _run_agent(options, presses)


def _run_agent(options: Options, presses: Presses) -> tuple[int, bool]:
    if options.command in {"chat", "acp"} or options.input == "-":
        _check_open(sys.stdin, "stdin")
    if options.command == "chat":
        agent = make_agent(options)
        return run(_main(agent, options, presses, lambda session: chat(session, presses)))
    if options.command == "acp":
        with redirect_stdout(sys.stderr):  # as below; `serve` takes the descriptor as well
            return run(acp(options, presses))
    text = sys.stdin.read() if options.input == "-" else options.input
    if not text.strip():
        raise UsageError("there is nothing to ask: the input is empty")
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):  # stdout is for the reply: what modules and tools print goes beside it
        agent = make_agent(options)
        perform = partial(run_once, text=text, shape=options.output, presses=presses, stdout=stdout)
        return run(_main(agent, options, presses, perform))


def _ask_others(options: PsOptions | CancelOptions) -> int:
    from loopctl.cli._cancel import cancel_runs
    from loopctl.cli._ps import ps

    return run(ps(options) if isinstance(options, PsOptions) else cancel_runs(options))


def _look_into(options: EffectsOptions | RunsOptions | SessionsOptions) -> int:
    from loopctl.cli._effects import effects  # a Python may be without SQLite
    from loopctl.cli._runs import runs, sessions

    match options:
        case EffectsOptions():
            return effects(options)
        case RunsOptions():
            return runs(options)
        case SessionsOptions():
            return sessions(options)


def _session(agent: Agent, options: Options) -> Session:
    if options.store is not None or options.session is None:
        return agent.session(store=options.store, id=options.session)
    from loopctl.cli._runs import made_default_store

    return agent.session(store=made_default_store(), id=options.session)


def _check(options: CheckOptions) -> int:
    from loopctl.cli._check import check  # the test kit is nothing for those who chat

    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        return check(options, stdout)


def _serve_mcp(options: McpOptions, presses: Presses) -> tuple[int, bool]:
    from loopctl.cli._mcp import serve_mcp  # those who chat need no server

    _check_open(sys.stdin, "stdin")
    # Loose ends always: what a call was told to stop may still be there, and the client has gone.
    return run(serve_mcp(options, presses)), True


def _serve(options: ServeOptions, presses: Presses) -> tuple[int, bool]:
    from loopctl.cli._serve import serve  # nor a web server

    return run(serve(options, presses))


def _check_open(stream: TextIO | None, name: str) -> None:
    """Refuse to begin without a stream that is needed; a closed one is None, whatever its type says."""
    if stream is None or stream.closed:
        raise UsageError(f"{name} is closed: give the command one, if only < /dev/null or > /dev/null")


async def _main(
    agent: Agent, options: Options, presses: Presses, perform: Callable[[Session], Awaitable[int]]
) -> tuple[int, bool]:
    session = _session(agent, options)
    try:
        async with served_tools(options.servers, presses) as served:
            agent.tools = ToolRegistry((*agent.tools.values(), *served))
            with listening(options.command, agent):
                code = await perform(session)
    except Cancelled as stop:  # while a server was being connected: the stop of a run is told by `perform`
        print(f"loopctl: stopped while an MCP server was being connected: {stop.reason.message}", file=sys.stderr)
        code = code_of_reason(stop.reason)
    finally:
        if options.store is not None or options.session is not None:
            await session.aclose()  # what is not stored yet is written
        await agent.aclose()
    return code, _has_loose_ends(session)


def _has_loose_ends(session: Session) -> bool:
    """True if work is left: abandoned, or tasks that a tool has made."""
    return any(not straggler.is_ended for straggler in session.stragglers) or len(asyncio.all_tasks()) > 1


def _say(error: BaseException, text: str, code: int) -> int:
    if os.environ.get(_DEBUG):
        traceback.print_exception(error)
    with suppress(OSError):  # then nobody can be told
        print(f"loopctl: {one_line(text)}", file=sys.stderr)
    return code


def _prepare_streams() -> None:
    """Let no character that a stream's encoding lacks raise, and no log of a library reach the terminal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if os.environ.get(_DEBUG):
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    elif not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
