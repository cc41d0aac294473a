"""The options of each command, as data: what the command line says and nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from loopctl.store import StoredOutcome

__all__ = [
    "AnyOptions",
    "CancelOptions",
    "CheckOptions",
    "EffectsOptions",
    "McpOptions",
    "Options",
    "PsOptions",
    "Resolution",
    "RunsOptions",
    "ServeOptions",
    "Server",
    "SessionsOptions",
    "Shape",
]

Shape: TypeAlias = Literal["text", "json", "events"]
"""What `loopctl run` prints on stdout."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of the commands that run an agent."""

    command: Literal["chat", "run", "serve", "acp"]
    model: str | None = None
    base_url: str | None = None
    system: str = ""
    tools: str | None = None
    workspace: str | None = None
    """The folder of the built-in tools; None is without them."""
    servers: tuple[str, ...] = ()
    """MCP servers: commands and URLs."""
    has_workspace: bool = False
    """For `acp`: let the built-in tools work in the folder of each session."""
    is_yes: bool = False
    """Let every call run without asking."""
    max_turns: int | None = None
    deadline: float | None = None
    """Seconds for each run."""
    is_streaming: bool = True
    input: str = ""
    """What to ask, for `run`; `-` reads stdin."""
    output: Shape = "text"
    store: str | None = None
    """The file for what outlives the process."""
    session: str | None = None
    """The name of the session in it, for `chat`; None begins another one."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Of `serve`: the agent, and who may reach it where."""

    agent: Options
    host: str
    port: int
    on_disconnect: Literal["cancel", "detach"]
    token_file: str | None = None


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Of `check`: what to check, and how."""

    tool: str
    input: str = "{}"
    """The arguments, as JSON."""
    files: str | None = None
    mode: Literal["both", "cancel", "kill"] = "both"
    grace: float = 1.0
    ignore: tuple[str, ...] = ()
    may_repeat: bool = False
    limit: int = 200
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class McpOptions:
    """Of `mcp serve`."""

    tools: str
    address: tuple[str, int] | None = None
    """Where to listen; None is the standard input and output."""
    is_yes: bool = False
    """Let tools run that need a yes."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of an effect."""

    key: str
    is_done: bool
    result: Any = None


@dataclass(frozen=True, slots=True)
class EffectsOptions:
    """Of `effects`."""

    store: str
    resolution: Resolution | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A server with our HTTP API."""

    url: str
    token_file: str | None = None


@dataclass(frozen=True, slots=True)
class PsOptions:
    """Of `ps`."""

    is_json: bool = False
    server: Server | None = None
    """Whose runs; None is every process of this user on this machine."""


@dataclass(frozen=True, slots=True)
class CancelOptions:
    """Of `cancel`."""

    runs: tuple[str, ...]
    """Ids, or beginnings of ids."""
    is_all: bool = False
    reason: str = ""
    urgency: Literal["drain", "stop", "abandon"] = "stop"
    is_json: bool = False
    server: Server | None = None


@dataclass(frozen=True, slots=True)
class RunsOptions:
    """Of `runs`."""

    run: str | None = None
    """The id of one run, or its beginning; None lists them."""
    store: str | None = None
    session: str | None = None
    outcome: StoredOutcome | None = None
    limit: int = 20
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class SessionsOptions:
    """Of `sessions`."""

    store: str | None = None
    limit: int = 20
    is_json: bool = False


AnyOptions: TypeAlias = (
    Options
    | ServeOptions
    | CheckOptions
    | McpOptions
    | EffectsOptions
    | PsOptions
    | CancelOptions
    | RunsOptions
    | SessionsOptions
)
