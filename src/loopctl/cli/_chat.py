"""`loopctl chat`: a conversation at the terminal.

Rules: one event loop for everything, so that abandoned work can end while the prompt waits; one run at a time; after a
stop the prompt is back and the next message just works.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from weakref import WeakSet

from loopctl.cli._amount import Amount
from loopctl.cli._asking import Asking
from loopctl.cli._beside import printing_beside
from loopctl.cli._commands import perform_command
from loopctl.cli._exit import COMPLETED, INTERRUPTED, TERMINATED, code_of
from loopctl.cli._presses import LeaveWarning, Presses
from loopctl.cli._prompt import Prompt, PromptInterrupted, make_prompt
from loopctl.cli._render import Renderer
from loopctl.cli._report import failure_line, late_line, one_line, stop_line
from loopctl.cli._screen import Screen
from loopctl.cli._setup import is_still_busy, make_ready, open_session
from loopctl.cli._stopping import Stopping
from loopctl.cli._terminal import keeping_typed
from loopctl.concurrency import Straggler, monotonic
from loopctl.driver import RunHandle, Session
from loopctl.errors import Cancelled
from loopctl.record import Run

__all__ = ["Chat", "chat"]

_HINT = "The conversation goes on as if you had not asked; /adopt keeps what it had said and done."


async def chat(session: Session, presses: Presses) -> int:
    """Talk until the person leaves.

    Returns:
        The exit code.

    Cancellation:
        Cancels the run that is going on, waits for its end, and leaves.
    """
    screen = Screen(sys.stdout, os.environ)
    if (
        session.agent.approve is None and sys.stdin.isatty() and screen.is_terminal
    ):  # else nobody is there to be asked, which means no
        session.agent.approve = Asking(screen, sys.stdin.fileno(), sys.stdin.encoding)
    talk = Chat(session, screen, make_prompt(screen, os.environ), presses)
    return await talk.greet() or await talk.talk()


class Chat:
    """One conversation at one terminal."""

    def __init__(self, session: Session, screen: Screen, prompt: Prompt, presses: Presses) -> None:
        """Let *session* talk with who sits at *prompt* and *screen*."""
        self._session = session
        self._screen = screen
        self._prompt = prompt
        self._presses = presses
        self._warning = LeaveWarning(monotonic)
        self._is_hinted = False
        self._last_code = COMPLETED
        self._told: WeakSet[Straggler] = WeakSet()
        self._watched: WeakSet[Straggler] = WeakSet()
        self._is_waiting = False

    async def greet(self) -> int:
        """Say who is there and how to stop and to leave, and load the model.

        Returns:
            0, or the exit code if loading was stopped.

        Cancellation:
            Stops loading.
        """
        model = self._session.agent.model
        # A script reads replies on stdout, and nothing about us.
        screen = self._screen if sys.stdin.isatty() else Screen(sys.stderr, os.environ)
        is_loaded_here = hasattr(model, "prepare")
        try:
            await open_session(self._session, self._presses)
        except Cancelled as stop:
            screen.line("stopped while the session was being opened", "yellow")
            return TERMINATED if stop.reason.origin == "shutdown" else INTERRUPTED
        started = monotonic()
        if is_loaded_here:
            screen.show(f"⋯ loading {model.name} (Ctrl-C leaves)")
        try:
            await make_ready(model, self._presses)
        except Cancelled as stop:
            screen.line(f"stopped while {model.name} was loading", "yellow")
            return TERMINATED if stop.reason.origin == "shutdown" else INTERRUPTED
        loaded = f", loaded in {monotonic() - started:.1f} s" if is_loaded_here else ""
        screen.line(f"loopctl {version('loopctl-py')} · {model.name}{loaded}", "bold")
        if sys.stdin.isatty():
            screen.line("Ctrl-C stops a reply, Ctrl-D at the prompt leaves, /help lists the rest.", "dim")
        self._tell_what_was(screen)
        return COMPLETED

    def _tell_what_was(self, screen: Screen) -> None:
        """Say where a session goes on that comes from a store."""
        session = self._session
        if not session.runs:
            return
        count = len(session.history)
        screen.line(f"{session.id} goes on: {count} message{'' if count == 1 else 's'}, /history shows them", "dim")
        if session.runs[-1].outcome == "interrupted":
            screen.tell(f"The last run was interrupted: its process ended. {_HINT}", "yellow", indent="  ")

    async def talk(self) -> int:
        """Take messages until the end.

        Returns:
            The exit code.

        Cancellation:
            Cancels the run that is going on, and waits for its end.
        """
        with keeping_typed(0) as put_back, self._presses.chatting():
            self._presses.put_back = put_back
            while not self._presses.is_terminated:
                try:
                    message = await self._read()
                except EOFError:
                    self._end_prompt()
                    # A person leaves; a script wants to know how it went.
                    return COMPLETED if sys.stdin.isatty() else self._last_code
                except PromptInterrupted as press:
                    self._end_prompt()
                    if self._is_leaving(press):
                        return COMPLETED
                    continue
                self._warning.disarm()
                if await self._answer(message):
                    return COMPLETED
            if self._last_code != TERMINATED:  # otherwise the report of the run has said it
                self._screen.line("stopped by SIGTERM", "yellow")
        return TERMINATED

    async def _read(self) -> str:
        for line in self._late_ends():
            self._screen.line(line, "dim")
        loop = asyncio.get_running_loop()
        with self._presses.prompting(lambda: loop.call_soon_threadsafe(self._on_signal)):
            if self._presses.take() or self._presses.is_terminated:
                raise PromptInterrupted
            self._is_waiting = True
            try:
                message = await self._prompt.read()
            except PromptInterrupted:
                self._presses.take()
                raise
            finally:
                self._is_waiting = False
        if self._prompt.is_stop_typed:
            self._presses.press()
        return message

    def _on_signal(self) -> None:
        if self._presses.has_news:  # else it was taken before the loop came to this: it must not count twice
            self._prompt.interrupt()

    def _end_prompt(self) -> None:
        if sys.stdin.isatty() and not self._prompt.is_edited:
            self._screen.line()  # an editor does that itself

    def _is_leaving(self, press: PromptInterrupted) -> bool:
        """Tell whether *press* leaves; if not, it warns, or has only dropped a line that was begun."""
        if self._presses.is_terminated:
            return False
        if press.had_text:
            self._warning.disarm()
        elif self._warning.is_armed and not self._prompt.is_touched:
            return True
        else:
            self._warning.arm()
            self._screen.line("Nothing is running. Press Ctrl-C again to leave.", "dim")
        return False

    async def _answer(self, message: str) -> bool:
        """Do what *message* says; True if that is to leave."""
        text = message.strip()
        if not text:
            return False
        if text.startswith("/"):
            return perform_command(text, self._session, self._screen)
        await self._run(text)
        return False

    async def _run(self, text: str) -> None:
        renderer = Renderer(self._screen, shows_thinking=True)
        async with self._session.start(text) as handle:
            stopping = Stopping(self._screen, renderer, handle, self._session.agent.config.grace)
            with printing_beside(self._screen), stopping, self._presses.running(handle.cancel, stopping):
                run = await _follow(handle, renderer)
        self._last_code = code_of(run)
        await self._report(run, renderer.amount)
        self._watch_stragglers()

    async def _report(self, run: Run, shown: Amount) -> None:
        screen = self._screen
        if run.stop is not None:
            if screen.is_open:
                screen.mark(" … [stopped]", "yellow")
            busy = await is_still_busy(self._session.agent.model, run)
            screen.tell(f"■ {stop_line(run, shown, is_busy=busy)}", "yellow")
        elif run.error is not None:
            screen.fresh()
            notes = Screen(sys.stderr, os.environ)
            notes.tell(f"loopctl: {failure_line(run, shown)}", "red")
        if run.store_error is not None:
            Screen(sys.stderr, os.environ).tell(f"loopctl: {one_line(str(run.store_error))}", "red")
        screen.fresh()
        self._hint(run, shown)

    def _hint(self, run: Run, shown: Amount) -> None:
        """Say once that what did not complete can be kept, if there is anything."""
        if run.outcome == "completed" or self._is_hinted or self._presses.is_terminated:
            return
        if shown or run.tool_calls:
            self._is_hinted = True
            self._screen.tell(_HINT, "dim", indent="  ")

    def _watch_stragglers(self) -> None:
        loop = asyncio.get_running_loop()

        def note(_: Straggler) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there any more
                loop.call_soon_threadsafe(self._on_late_end)

        for straggler in self._session.stragglers:
            if not straggler.is_ended and straggler not in self._watched:
                self._watched.add(straggler)
                straggler.on_end(note)

    def _on_late_end(self) -> None:
        """Tell at once where a message is awaited; a reply is not torn apart for it."""
        if self._is_waiting:
            for line in self._late_ends():
                self._prompt.tell(line)

    def _late_ends(self) -> list[str]:
        ended = [known for known in self._session.stragglers if known.is_ended and known not in self._told]
        self._told.update(ended)
        return [late_line(straggler) for straggler in ended]


async def _follow(handle: RunHandle, renderer: Renderer) -> Run:
    async for event in handle:
        renderer.take(event)
    return await handle
