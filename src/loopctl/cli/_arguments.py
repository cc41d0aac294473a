"""The command line: its words, their help, and the options as data.

Rules: `--help` looks the same in every terminal, as docs/reference/cli.md quotes it; a wrong command line is one line
on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import NoReturn

from loopctl.cli import _words as words
from loopctl.cli._options import (
    AnyOptions,
    CancelOptions,
    CheckOptions,
    EffectsOptions,
    McpOptions,
    Options,
    PsOptions,
    Resolution,
    RunsOptions,
    ServeOptions,
    Server,
    SessionsOptions,
    Shape,
)
from loopctl.cli._values import address, count, grace, json_value, port, seconds

__all__ = ["parse", "parsers"]

_HINTS = {
    "INPUT": " (what to ask, in quotes; - reads it from stdin)",
    "TOOLS": " (what to serve, as module:function)",
    "RUN": " (which; or --all)",
    "TOOL": " (what to check, as module:function)",
}
"""What is said more of what is missing, by its name in the help."""


_OUTCOMES = ("running", "completed", "cancelled", "max_turns", "failed", "interrupted")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        hint = _HINTS.get(message.rpartition(": ")[2], "")
        self.exit(2, f"loopctl: {message}{hint}. See: {self.prog} --help\n")


@dataclass(frozen=True, slots=True)
class _Command:
    """One command: what its help says, and how its options are read."""

    help: str
    usage: str
    """What follows the command's own name."""
    description: str
    add: Callable[[argparse.ArgumentParser], None]
    read: Callable[[argparse.Namespace, argparse.ArgumentParser], AnyOptions]
    epilog: str | None = None


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Give the parser of each command, by the command as one types it; the first is that of `loopctl` itself."""
    form = partial(argparse.RawDescriptionHelpFormatter, max_help_position=26, width=88)
    every = "{" + ",".join(_COMMANDS) + "}"
    main = _Parser(
        prog="loopctl",
        usage="loopctl [--version] COMMAND ...",
        description="Run a model with tools, and stop it at any instant, cleanly.",
        formatter_class=form,
    )
    main.add_argument("--version", action="version", version=f"loopctl {version('loopctl-py')}")
    commands = main.add_subparsers(dest="command", metavar=every, required=True, parser_class=_Parser)
    found: dict[str, argparse.ArgumentParser] = {"loopctl": main}
    for name, command in _COMMANDS.items():
        parser = commands.add_parser(
            name,
            prog=f"loopctl {name}",
            help=command.help,
            usage=f"loopctl {name} {command.usage}",
            description=command.description,
            epilog=command.epilog,
            formatter_class=form,
        )
        command.add(parser)
        found[f"loopctl {name}"] = parser
    return found


def parse(argv: Sequence[str] | None) -> AnyOptions:
    """Read a command line.

    Args:
        argv: The arguments after the command's name; None takes the process's own.

    Raises:
        SystemExit: It is wrong (2), or asked for help or the version (0), which was printed.
    """
    every = parsers()
    found, unknown = every["loopctl"].parse_known_args(argv)
    parser = every[f"loopctl {found.command}"]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return _COMMANDS[found.command].read(found, parser)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="serve", choices=["serve"], help="the only thing there is to do")
    parser.add_argument(
        "tools", metavar="TOOLS", help="functions or agents for clients to call: mytools:save,mytools:expert"
    )
    parser.add_argument("--http", metavar="PORT", type=address, help="listen at PORT, or HOST:PORT; else on stdin")
    parser.add_argument("--yes", action="store_true", help="let tools run that need a yes; else those are denied")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the function: mytools:save")
    parser.add_argument("--input", metavar="JSON", default="{}", help="its arguments, as a model would send them")
    parser.add_argument("--files", metavar="DIR", help="what the fresh folder holds before: a copy of this one")
    parser.add_argument("--mode", choices=["cancel", "kill", "both"], default="both", help="how it is abandoned (both)")
    parser.add_argument("--grace", metavar="S", type=grace, default=1.0, help="seconds that a stopped call gets (1)")
    parser.add_argument(
        "--ignore", metavar="GLOB", action="append", default=[], help="names that do not matter: '*.log'"
    )
    parser.add_argument("--may-repeat", action="store_true", help="a second run may have an effect once more")
    parser.add_argument("--limit", metavar="N", type=count, default=200, help="points of each mode, at most (200)")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def _add_effects(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="FILE", help="the store: what --store was given")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("--done", metavar="KEY", help="it has happened: it is not done again")
    said.add_argument("--not-done", metavar="KEY", help="it has not: the next call does it")
    parser.add_argument("--result", metavar="JSON", type=json_value, help="what it gave, for --done (null)")


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="show", nargs="?", choices=["show"], help="tell all of one run")
    parser.add_argument("run", metavar="ID", nargs="?", help="its id, or the beginning of it")
    parser.add_argument("--session", metavar="NAME", help="only the runs of this session")
    parser.add_argument("--outcome", choices=_OUTCOMES, metavar="WORD", help=f"only these: {', '.join(_OUTCOMES)}")
    _add_listing(parser, "runs")


def _add_listing(parser: argparse.ArgumentParser, what: str = "sessions") -> None:
    parser.add_argument("--store", metavar="FILE", help="the store; see below")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help=f"{what}, at most (20)")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="NAME", help="begin, or go on with, the session of this name in the store")
    _add_agent(parser)


def _add_agent(parser: argparse.ArgumentParser, *, has_own_folder: bool = False) -> None:
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
    parser.add_argument("--max-turns", metavar="N", type=count, help="model requests per run, at most (50)")
    parser.add_argument("--deadline", metavar="S", type=seconds, help="seconds for each run, then it is stopped")
    parser.add_argument("--store", metavar="FILE", help="keep the session, and what tools do once, in FILE")
    parser.add_argument("--no-stream", action="store_true", help="ask for whole replies")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help="what to ask; - reads it from stdin")
    _add_agent(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the record of the run as one JSON object")
    shape.add_argument("--events", action="store_true", help="print each event as one line of JSON")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", metavar="P", type=port, default=8780, help="where to listen (8780); 0 takes any")
    parser.add_argument("--token-file", metavar="FILE", help="what everybody has to send; needed on another host")
    parser.add_argument(
        "--on-disconnect",
        choices=["cancel", "detach"],
        default="cancel",
        help="stop a run when its last reader has gone (cancel), or let it go on",
    )
    _add_agent(parser)


def _read_agent(found: argparse.Namespace, _: argparse.ArgumentParser) -> Options:
    is_acp = found.command == "acp"
    return Options(
        command=found.command,
        model=found.model,
        base_url=found.base_url,
        system=found.system,
        tools=found.tools,
        workspace=None if is_acp else found.workspace,
        has_workspace=is_acp and found.workspace,
        servers=tuple(found.mcp or ()),
        is_yes=found.yes,
        max_turns=found.max_turns,
        deadline=found.deadline,
        is_streaming=not found.no_stream,
        input=getattr(found, "input", ""),
        output=_output(found),
        store=found.store,
        session=getattr(found, "session", None),
    )


def _read_runs(found: argparse.Namespace, parser: argparse.ArgumentParser) -> RunsOptions:
    if (found.action is None) != (found.run is None):
        parser.error("show goes with the ID of a run")
    return RunsOptions(found.run, found.store, found.session, found.outcome, found.limit, found.json)


def _read_sessions(found: argparse.Namespace, _: argparse.ArgumentParser) -> SessionsOptions:
    return SessionsOptions(found.store, found.limit, found.json)


def _read_serve(found: argparse.Namespace, parser: argparse.ArgumentParser) -> ServeOptions:
    agent = _read_agent(found, parser)
    return ServeOptions(agent, found.host, found.port, found.on_disconnect, found.token_file)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", metavar="URL", help="ask this server (loopctl serve), and not this machine")
    parser.add_argument("--token-file", metavar="FILE", help="what to show it: its --token-file")


def _read_server(found: argparse.Namespace, parser: argparse.ArgumentParser) -> Server | None:
    if found.url is None and found.token_file is not None:
        parser.error("--token-file goes with --url")
    return None if found.url is None else Server(found.url, found.token_file)


def _add_ps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the runs as one JSON object")
    _add_server(parser)


def _read_ps(found: argparse.Namespace, parser: argparse.ArgumentParser) -> PsOptions:
    return PsOptions(found.json, _read_server(found, parser))


def _add_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="*", help="the id of a run, or its beginning")
    parser.add_argument("--all", action="store_true", help="every run there is")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; it stands in the record")
    parser.add_argument(
        "--urgency", choices=["drain", "stop", "abandon"], default="stop", help="drain: finish what is in flight"
    )
    parser.add_argument("--json", action="store_true", help="print each receipt as one line of JSON")
    _add_server(parser)


def _read_cancel(found: argparse.Namespace, parser: argparse.ArgumentParser) -> CancelOptions:
    if found.all == bool(found.runs):
        parser.error("--all goes without a RUN" if found.all else "the following arguments are required: RUN")
    server = _read_server(found, parser)
    return CancelOptions(tuple(found.runs), found.all, found.reason, found.urgency, found.json, server)


def _read_check(found: argparse.Namespace, _: argparse.ArgumentParser) -> CheckOptions:
    return CheckOptions(
        found.tool,
        found.input,
        found.files,
        found.mode,
        found.grace,
        tuple(found.ignore),
        found.may_repeat,
        found.limit,
        found.json,
    )


def _read_mcp(found: argparse.Namespace, _: argparse.ArgumentParser) -> McpOptions:
    return McpOptions(found.tools, found.http, found.yes)


def _read_effects(found: argparse.Namespace, parser: argparse.ArgumentParser) -> EffectsOptions:
    resolution = None
    if found.done is not None:
        resolution = Resolution(found.done, is_done=True, result=found.result)
    elif found.result is not None:
        parser.error("--result goes with --done")
    elif found.not_done is not None:
        resolution = Resolution(found.not_done, is_done=False)
    return EffectsOptions(found.store, resolution)


def _output(found: argparse.Namespace) -> Shape:
    if getattr(found, "json", False):
        return "json"
    return "events" if getattr(found, "events", False) else "text"


_COMMANDS = {
    "chat": _Command("talk to a model at the terminal", "[options]", words.CHAT, _add_chat, _read_agent, words.MODELS),
    "run": _Command(
        "run once, for scripts",
        '[options] "what to ask"',
        words.RUN,
        _add_run,
        _read_agent,
        f"{words.CODES}\n\n{words.MODELS}",
    ),
    "serve": _Command("serve a page and its HTTP API", "[options]", words.SERVE, _add_serve, _read_serve, words.MODELS),
    "ps": _Command("show the runs that go on", "[options]", words.PS, _add_ps, _read_ps),
    "cancel": _Command(
        "stop runs by their id", "[options] RUN ...", words.CANCEL, _add_cancel, _read_cancel, words.CANCEL_NOTES
    ),
    "check": _Command(
        "find out whether a tool is safe to abandon",
        "[options] module:function",
        words.CHECK,
        _add_check,
        _read_check,
        words.CHECK_NOTES,
    ),
    "mcp": _Command(
        "serve tools to MCP clients", "serve [options] module:function,...", words.MCP, _add_mcp, _read_mcp
    ),
    "acp": _Command(
        "be an agent in an editor",
        "[options]",
        words.ACP,
        partial(_add_agent, has_own_folder=True),
        _read_agent,
        words.MODELS,
    ),
    "runs": _Command(
        "the runs in a store, and how they ended", "[show ID] [options]", words.RUNS, _add_runs, _read_runs, words.STORE
    ),
    "sessions": _Command(
        "the sessions in a store", "[options]", words.SESSIONS, _add_listing, _read_sessions, words.STORE
    ),
    "effects": _Command(
        "what tools began and nobody knows the end of",
        "FILE [--done KEY [--result JSON] | --not-done KEY]",
        words.EFFECTS,
        _add_effects,
        _read_effects,
    ),
}
"""In the order of the help."""
