"""What a line that begins with a slash does in a chat."""

from __future__ import annotations

from collections.abc import Callable
from time import localtime, strftime

from loopctl.cli._render import call_text
from loopctl.cli._report import amount_of, kept_line, milliseconds
from loopctl.cli._screen import Screen, shorten
from loopctl.driver import Session
from loopctl.messages import AssistantMessage, Message, ToolMessage, UserMessage
from loopctl.record import CallStatus, Run

__all__ = ["perform_command"]

_HELP = """\
/history   the conversation that the model knows
/runs      what each message led to: ending, time, tools
/adopt     keep what the last run, if it was stopped or failed, had said and done
/help      this
/exit      leave; so does Ctrl-D at the prompt
Ctrl-C stops a reply; a second one waits for nothing more, a third one leaves.
Alt-Enter begins a new line in a message."""
_EXITS = frozenset({"/exit", "/quit"})
_LINE = 200


def perform_command(text: str, session: Session, screen: Screen) -> bool:
    """Do what *text* says, on *screen*.

    Returns:
        True if that is to leave.
    """
    name, *arguments = text.split(maxsplit=1)
    command = _COMMANDS.get(name)
    is_exit = name in _EXITS
    if command is None and not is_exit:
        screen.line(f"{name} is no command: /help lists them", "yellow")
    elif arguments:
        screen.line(f"{name} takes no argument: type {name} alone", "yellow")
    elif command is not None:
        command(session, screen)
    else:
        return is_exit
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
            return text + [("calls", call_text(call)) for call in message.tool_calls]
        case ToolMessage():
            return [("result", shorten(result.content, _LINE)) for result in message.results]


def _runs(session: Session, screen: Screen) -> None:
    if not session.runs:
        screen.line("No runs yet.", "dim")
    for number, run in enumerate(session.runs, 1):
        screen.row(f"{number:>3}  {_run_line(run)}")


def _run_line(run: Run) -> str:
    at = strftime("%H:%M:%S", localtime(run.started_at))
    ending = run.outcome.replace("_", " ")
    if run.stop is not None:
        ending += f" at {run.stop.checkpoint.name} after {milliseconds(run.stop.latency)}"
    parts = [f"{at}  {ending}", f"{run.ended_at - run.started_at:.1f} s", str(amount_of(run))]
    for status in CallStatus:
        names = [call.name for call in run.tool_calls if call.status is status]
        if names:
            parts.append(f"{status.value.replace('_', ' ')}: {', '.join(names)}")
    return f"{', '.join(parts)}  “{shorten(run.input.text, 40)}”"


def _adopt(session: Session, screen: Screen) -> None:
    if not session.runs:
        screen.line("There is no run to adopt yet.", "dim")
    elif session.adopt(session.runs[-1]):
        screen.tell(kept_line(session.runs[-1]), "dim")
    elif session.runs[-1].outcome == "completed":
        screen.tell("Nothing to keep: the last run completed, and only the last one can be kept.", "dim")
    else:
        screen.line("The last run is part of the conversation already.", "dim")


_COMMANDS: dict[str, Callable[[Session, Screen], None]] = {
    "/help": _help,
    "/history": _history,
    "/runs": _runs,
    "/adopt": _adopt,
}
