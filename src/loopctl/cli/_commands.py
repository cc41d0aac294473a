"""What a line that begins with a slash does in a chat."""

from __future__ import annotations

from collections.abc import Callable
from time import localtime, strftime

from loopctl.cli._report import count_words, milliseconds
from loopctl.cli._screen import Screen, shorten
from loopctl.driver import Session
from loopctl.messages import AssistantMessage, Message, ToolMessage, UserMessage
from loopctl.record import CallStatus, Run

__all__ = ["perform_command"]

_HELP = """\
/history   the conversation that the model knows
/runs      what each message led to: ending, time, tools
/adopt     keep what the last, stopped run had said and done
/help      this
/exit      leave; so does Ctrl-D
Ctrl-C stops a reply; pressed again while it is stopping, it leaves.
Alt-Enter begins a new line in a message."""
_LINE = 200


def perform_command(text: str, session: Session, screen: Screen) -> bool:
    """Do what *text* says, on *screen*.

    Returns:
        True if that is to leave.
    """
    name = text.split(maxsplit=1)[0]
    if name in {"/exit", "/quit"}:
        return True
    command = _COMMANDS.get(name)
    if command is None:
        screen.line(f"{name} is no command: /help lists them", "yellow")
    else:
        command(session, screen)
    return False


def _help(session: Session, screen: Screen) -> None:
    del session
    screen.line(_HELP, "dim")


def _history(session: Session, screen: Screen) -> None:
    if not session.history:
        screen.line("Nothing yet: only completed replies are kept, and stopped ones after /adopt.", "dim")
    for message in session.history:
        for who, said in _lines(message):
            screen.line(f"{who:>9}  {said}")


def _lines(message: Message) -> list[tuple[str, str]]:
    match message:
        case UserMessage():
            return [("you", message.text)]
        case AssistantMessage():
            text = [("model", message.text)] if message.text else []
            return text + [
                ("calls", f"{call.name} {shorten(str(dict(call.arguments)), _LINE)}") for call in message.tool_calls
            ]
        case ToolMessage():
            return [("result", shorten(result.content, _LINE)) for result in message.results]


def _runs(session: Session, screen: Screen) -> None:
    if not session.runs:
        screen.line("No runs yet.", "dim")
    for number, run in enumerate(session.runs, 1):
        screen.line(f"{number:>3}  {_run_line(run)}")


def _run_line(run: Run) -> str:
    at = strftime("%H:%M:%S", localtime(run.started_at))
    ending = run.outcome.replace("_", " ")
    if run.stop is not None:
        ending += f" at {run.stop.checkpoint.name} after {milliseconds(run.stop.latency)}"
    parts = [f"{at}  {ending}", f"{run.ended_at - run.started_at:.1f} s", f"{count_words(run)} words"]
    for status in CallStatus:
        names = [call.name for call in run.tool_calls if call.status is status]
        if names:
            parts.append(f"{status.value.replace('_', ' ')}: {', '.join(names)}")
    return f"{', '.join(parts)}  “{shorten(run.input.text, 40)}”"


def _adopt(session: Session, screen: Screen) -> None:
    if not session.runs:
        screen.line("There is no run to adopt yet.", "dim")
    elif session.adopt(session.runs[-1]):
        screen.line("Kept: the model knows now what it had said and done, and that it was stopped.", "dim")
    else:
        screen.line("The last run is part of the conversation already.", "dim")


_COMMANDS: dict[str, Callable[[Session, Screen], None]] = {
    "/help": _help,
    "/history": _history,
    "/runs": _runs,
    "/adopt": _adopt,
}
