"""The command line: its words, their help, and the options as data.

Rules: `--help` looks the same in every terminal, as docs/reference/cli.md quotes it; a wrong command line is one line
on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Literal, NoReturn, TypeAlias

__all__ = ["Checking", "Options", "Resolution", "Shape", "parse", "parsers"]

_MODELS = """\
models:
  local                 a small model on this machine, no key needed (extra: local)
  local:/path/m.gguf    any model that llama.cpp runs
  openai:NAME           OpenAI, with OPENAI_API_KEY
  ollama:NAME           Ollama on this machine, or at OLLAMA_HOST
  NAME                  with --base-url: what that server calls it

Without --model: openai:gpt-5.2 if OPENAI_API_KEY is set, else local."""

_CHAT = """\
Talk to a model. Ctrl-C stops a reply and brings the prompt back; pressed again,
it waits for nothing more; a third time, it leaves. Ctrl-D at the prompt leaves.
/help lists the rest."""

_RUN = """\
Run once: the reply goes to stdout, everything else to stderr. Ctrl-C stops it."""

_ACP = """\
Be an agent in an editor, by the Agent Client Protocol on stdin and stdout: the editor
starts this command, asks you before calls that need a yes, and stops what runs."""

_EFFECTS = """\
Show the effects in a store that were begun and never recorded as done, or say what
became of one. ctx.once in a tool raises EffectUnknown for them until then."""

_CHECK = """\
Find out whether a tool is safe to abandon: it is run once as a whole, then stopped at
each of its awaits and killed at each of its lines, each time in a fresh folder and in
a process of its own. Told is what that leaves half-done or open, with the line."""

_CHECK_NOTES = """\
exit codes:
  0 safe to abandon      1 something was found      2 it cannot be checked

Paths in the input should be relative: only the fresh folder is looked at. Reach no real
service: the tool runs dozens of times."""

_MCP = """\
Serve tools to clients of the Model Context Protocol: to the one on stdin and stdout, or
over HTTP. A client's cancel stops the call. Ctrl-C and SIGTERM end the server."""

_CODES = """\
exit codes:
  0 completed      1 failed, or out of turns      2 called wrongly
  124 deadline     130 stopped by Ctrl-C or by another     143 stopped by SIGTERM"""

Shape: TypeAlias = Literal["text", "json", "events"]
"""What `loopctl run` prints on stdout."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    command: Literal["chat", "run", "effects", "check", "mcp", "acp"]
    model: str | None = None
    base_url: str | None = None
    system: str = ""
    tools: str | None = None
    workspace: str | None = None
    """The folder of the built-in tools; None is without them."""
    servers: tuple[str, ...] = ()
    """MCP servers: commands and URLs."""
    address: tuple[str, int] | None = None
    """For `mcp serve`: where to listen; None is the standard input and output."""
    has_workspace: bool = False
    """For `acp`: let the built-in tools work in the folder of each session."""
    is_yes: bool = False
    """Let every call run without asking."""
    max_turns: int | None = None
    deadline: float | None = None
    """Seconds for each run."""
    is_streaming: bool = True
    input: str = ""
    """What to ask, for `run`; `-` reads stdin. For `check`: the arguments, as JSON."""
    output: Shape = "text"
    store: str | None = None
    """The file for what outlives the process."""
    resolution: Resolution | None = None
    """For `effects`."""
    checking: Checking | None = None
    """For `check`."""


@dataclass(frozen=True, slots=True)
class Checking:
    """What to check, and how."""

    tool: str
    files: str | None = None
    mode: Literal["both", "cancel", "kill"] = "both"
    grace: float = 1.0
    ignore: tuple[str, ...] = ()
    may_repeat: bool = False
    limit: int = 200


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of an effect."""

    key: str
    is_done: bool
    result: Any = None


_HINTS = {
    "INPUT": " (what to ask, in quotes; - reads it from stdin)",
    "TOOLS": " (what to serve, as module:function)",
    "TOOL": " (what to check, as module:function)",
}
"""What is said more of what is missing, by its name in the help."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        hint = _HINTS.get(message.rpartition(": ")[2], "")
        self.exit(2, f"loopctl: {message}{hint}. See: {self.prog} --help\n")


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Give the parser of each command, by the command as one types it; the first is that of `loopctl` itself."""
    form = partial(argparse.RawDescriptionHelpFormatter, max_help_position=26, width=88)
    main = _Parser(
        prog="loopctl",
        usage="loopctl [--version] {chat,run,check,mcp,acp,effects} ...",
        description="Run a model with tools, and stop it at any instant, cleanly.",
        formatter_class=form,
    )
    main.add_argument("--version", action="version", version=f"loopctl {version('loopctl-py')}")
    commands = main.add_subparsers(
        dest="command", metavar="{chat,run,check,mcp,acp,effects}", required=True, parser_class=_Parser
    )
    chat = commands.add_parser(
        "chat",
        prog="loopctl chat",
        help="talk to a model at the terminal",
        usage="loopctl chat [options]",
        description=_CHAT,
        epilog=_MODELS,
        formatter_class=form,
    )
    run = commands.add_parser(
        "run",
        prog="loopctl run",
        help="run once, for scripts",
        usage='loopctl run [options] "what to ask"',
        description=_RUN,
        epilog=f"{_CODES}\n\n{_MODELS}",
        formatter_class=form,
    )
    run.add_argument("input", metavar="INPUT", help="what to ask; - reads it from stdin")
    for parser in (chat, run):
        _add_shared(parser)
    shape = run.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the record of the run as one JSON object")
    shape.add_argument("--events", action="store_true", help="print each event as one line of JSON")
    check = commands.add_parser(
        "check",
        prog="loopctl check",
        help="find out whether a tool is safe to abandon",
        usage="loopctl check [options] module:function",
        description=_CHECK,
        epilog=_CHECK_NOTES,
        formatter_class=form,
    )
    _add_check(check)
    served = commands.add_parser(
        "mcp",
        prog="loopctl mcp",
        help="serve tools to MCP clients",
        usage="loopctl mcp serve [options] module:function,...",
        description=_MCP,
        formatter_class=form,
    )
    _add_mcp(served)
    effects = commands.add_parser(
        "effects",
        prog="loopctl effects",
        help="what tools began and nobody knows the end of",
        usage="loopctl effects FILE [--done KEY [--result JSON] | --not-done KEY]",
        description=_EFFECTS,
        formatter_class=form,
    )
    _add_effects(effects)
    acp = commands.add_parser(
        "acp",
        prog="loopctl acp",
        help="be an agent in an editor",
        usage="loopctl acp [options]",
        description=_ACP,
        epilog=_MODELS,
        formatter_class=form,
    )
    _add_shared(acp, has_own_folder=True)
    every = {"chat": chat, "run": run, "check": check, "mcp": served, "acp": acp, "effects": effects}
    return {"loopctl": main, **{f"loopctl {name}": parser for name, parser in every.items()}}


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="serve", choices=["serve"], help="the only thing there is to do")
    parser.add_argument("tools", metavar="TOOLS", help="functions that clients may call: mytools:save,mytools:fetch")
    parser.add_argument("--http", metavar="PORT", type=_address, help="listen at PORT, or HOST:PORT; else on stdin")
    parser.add_argument("--yes", action="store_true", help="let tools run that need a yes; else those are denied")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the function: mytools:save")
    parser.add_argument("--input", metavar="JSON", default="{}", help="its arguments, as a model would send them")
    parser.add_argument("--files", metavar="DIR", help="what the fresh folder holds before: a copy of this one")
    parser.add_argument("--mode", choices=["cancel", "kill", "both"], default="both", help="how it is abandoned (both)")
    parser.add_argument("--grace", metavar="S", type=_grace, default=1.0, help="seconds that a stopped call gets (1)")
    parser.add_argument(
        "--ignore", metavar="GLOB", action="append", default=[], help="names that do not matter: '*.log'"
    )
    parser.add_argument("--may-repeat", action="store_true", help="a second run may have an effect once more")
    parser.add_argument("--limit", metavar="N", type=_count, default=200, help="points of each mode, at most (200)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def _add_effects(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="FILE", help="the store: what --store was given")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("--done", metavar="KEY", help="it has happened: it is not done again")
    said.add_argument("--not-done", metavar="KEY", help="it has not: the next call does it")
    parser.add_argument("--result", metavar="JSON", type=_json, help="what it gave, for --done (null)")


def _add_shared(parser: argparse.ArgumentParser, *, has_own_folder: bool = False) -> None:
    parser.add_argument("--model", metavar="NAME", help="what answers; see below")
    parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server, up to its /v1")
    parser.add_argument("--system", metavar="TEXT", default="", help="instructions for the model")
    parser.add_argument("--tools", metavar="M:F,...", help="functions it may call: mytools:save,mytools:fetch")
    if has_own_folder:
        what = "let it read, change and run things in the project; asks before changes"
        parser.add_argument("--workspace", action="store_true", help=what)
    else:
        what = "let it read, change and run things in DIR; asks before changes"
        parser.add_argument("--workspace", metavar="DIR", help=what)
    parser.add_argument(
        "--mcp", metavar="SERVER", action="append", help="tools of an MCP server: a command or URL; each call asks"
    )
    parser.add_argument("--yes", action="store_true", help="ask nobody: every call may run")
    parser.add_argument("--max-turns", metavar="N", type=_count, help="model requests per run, at most (50)")
    parser.add_argument("--deadline", metavar="S", type=_seconds, help="seconds for each run, then it is stopped")
    parser.add_argument("--store", metavar="FILE", help="where tools record what they do once; see loopctl effects")
    parser.add_argument("--no-stream", action="store_true", help="ask for whole replies")


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, more than 0")
    return seconds


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the last port
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, nor a host and a port")
    return host.strip("[]") or "127.0.0.1", int(port)


def _grace(text: str) -> float:
    return 0.0 if text in {"0", "0.0"} else _seconds(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: a text needs its own quotes, '\"so\"'") from None


def parse(argv: Sequence[str] | None) -> Options:
    """Read a command line.

    Args:
        argv: The arguments after the command's name; None takes the process's own.

    Raises:
        SystemExit: It is wrong (2), or asked for help or the version (0), which was printed.
    """
    every = parsers()
    found, unknown = every["loopctl"].parse_known_args(argv)
    if unknown:
        every[f"loopctl {found.command}"].error(f"unrecognized arguments: {' '.join(unknown)}")
    if found.command == "effects":
        return Options(command="effects", store=found.store, resolution=_resolution(found, every["loopctl effects"]))
    if found.command == "mcp":
        return Options(command="mcp", tools=found.tools, address=found.http, is_yes=found.yes)
    if found.command == "check":
        return Options(command="check", input=found.input, output=_output(found), checking=_checking(found))
    return Options(
        command=found.command,
        model=found.model,
        base_url=found.base_url,
        system=found.system,
        tools=found.tools,
        workspace=found.workspace if found.command != "acp" else None,
        has_workspace=found.command == "acp" and found.workspace,
        servers=tuple(found.mcp or ()),
        is_yes=found.yes,
        max_turns=found.max_turns,
        deadline=found.deadline,
        is_streaming=not found.no_stream,
        input=getattr(found, "input", ""),
        output=_output(found),
        store=found.store,
    )


def _checking(found: argparse.Namespace) -> Checking:
    ignore = tuple(found.ignore)
    return Checking(found.tool, found.files, found.mode, found.grace, ignore, found.may_repeat, found.limit)


def _resolution(found: argparse.Namespace, parser: argparse.ArgumentParser) -> Resolution | None:
    if found.done is not None:
        return Resolution(found.done, is_done=True, result=found.result)
    if found.result is not None:
        parser.error("--result goes with --done")
    return None if found.not_done is None else Resolution(found.not_done, is_done=False)


def _output(found: argparse.Namespace) -> Shape:
    if getattr(found, "json", False):
        return "json"
    return "events" if getattr(found, "events", False) else "text"
