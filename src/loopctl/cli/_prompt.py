"""Where a person's messages come from: a line editor on a terminal, plain lines everywhere else.

Rules: reading waits on the loop, so that abandoned work can end meanwhile; `interrupt` ends a wait from the loop's own
thread; no thread is made, because one that waits for a key cannot be ended.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from loopctl.cli._screen import Screen
from loopctl.cli._terminal import take_typed

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyPressEvent

__all__ = ["EditedPrompt", "LinePrompt", "Prompt", "PromptInterrupted", "make_prompt"]

_SIGN = "> "
_PORTION = 65536


class PromptInterrupted(Exception):
    """A signal came while the prompt waited."""

    def __init__(self, *, had_text: bool = False) -> None:
        """*had_text* tells that a line was begun, which is dropped."""
        super().__init__()
        self.had_text = had_text


class Prompt(Protocol):
    """Gives messages."""

    is_edited: bool
    """True if it is a line editor, which leaves the cursor on a line of its own."""
    is_touched: bool
    """True if anything was typed since `read` was called, and not sent."""
    is_stop_typed: bool
    """True if a Ctrl-C came behind the message that `read` gave, as a character."""

    async def read(self) -> str:
        """Give the next message.

        Raises:
            EOFError: There are no more.
            PromptInterrupted: Ctrl-C was pressed, or `interrupt` was called.

        Cancellation:
            Ends the wait.
        """
        raise NotImplementedError

    def interrupt(self) -> None:
        """End the wait of `read`; a line that was begun is dropped."""

    def tell(self, text: str) -> None:
        """Show *text*, a line, above the message that is being typed; only while `read` waits."""


def make_prompt(screen: Screen, environ: Mapping[str, str]) -> Prompt:
    """Choose: an editor, if there is one and a terminal that is not dumb."""
    is_terminal = sys.stdin.isatty()
    if is_terminal and screen.can_rewrite and find_spec("prompt_toolkit") is not None:
        return EditedPrompt(has_colors=not environ.get("NO_COLOR"))
    return LinePrompt(sys.stdin.fileno(), screen if is_terminal else None, encoding=sys.stdin.encoding)


class EditedPrompt:
    """A line editor with history: the keys of a shell, Alt-Enter for a line break."""

    is_edited = True

    def __init__(self, *, has_colors: bool) -> None:
        """Prepare the editor."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.output import ColorDepth

        keys = KeyBindings()
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-c")(self._on_ctrl_c)
        self._session: PromptSession[str] = PromptSession(
            key_bindings=keys,
            enable_suspend=True,
            color_depth=None if has_colors else ColorDepth.DEPTH_1_BIT,
        )
        self._session.default_buffer.on_text_changed += self._on_typed
        self._is_interrupted = False
        self.is_touched = False
        self.is_stop_typed = False

    async def read(self) -> str:
        """Give the next message.

        Raises:
            EOFError: Ctrl-D on an empty line.
            PromptInterrupted: Ctrl-C was pressed, or `interrupt` was called.

        Cancellation:
            The terminal is put back; the line is lost.
        """
        self._is_interrupted = self.is_touched = self.is_stop_typed = False
        # Signals are the command's own business: the editor's handler would replace it.
        message = await self._session.prompt_async(_SIGN, handle_sigint=False, pre_run=self._on_begun)
        self._take_stop()
        return message

    def _take_stop(self) -> None:
        """Look for a Ctrl-C behind the message: it was meant for the reply, not for the next prompt."""
        from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
        from prompt_toolkit.keys import Keys

        source = self._session.input
        ahead = get_typeahead(source)
        kept = [press for press in ahead if press.key != Keys.ControlC]
        self.is_stop_typed = len(kept) < len(ahead)
        store_typeahead(source, kept)

    def _on_typed(self, buffer: Buffer) -> None:
        self.is_touched = self.is_touched or bool(buffer.text)

    def _on_ctrl_c(self, event: KeyPressEvent) -> None:
        del event
        self.interrupt()

    def tell(self, text: str) -> None:
        """Show *text* above the line; only while `read` waits."""
        from prompt_toolkit.application import run_in_terminal

        run_in_terminal(lambda: print(text, flush=True))

    def interrupt(self) -> None:
        """End the wait of `read`, also one that is only about to begin."""
        self._is_interrupted = True
        self._on_begun()

    def _on_begun(self) -> None:
        app = self._session.app
        if self._is_interrupted and app.is_running and not app.is_done:
            had_text = bool(self._session.default_buffer.text)
            app.exit(exception=PromptInterrupted(had_text=had_text), style="class:aborting")


class LinePrompt:
    """Lines of a pipe, a file, or a terminal that has its own line editing."""

    is_edited = False

    def __init__(self, descriptor: int, screen: Screen | None, *, encoding: str = "utf-8") -> None:
        """Read *descriptor*; *screen* is where a person is asked, None if nobody is there."""
        self._descriptor = descriptor
        self._screen = screen
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._text = ""
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._is_interrupted = False
        self.is_touched = False  # the terminal does not tell
        self.is_stop_typed = False

    async def read(self) -> str:
        """Give the next line.

        Raises:
            EOFError: There are no more.
            PromptInterrupted: `interrupt` was called.

        Cancellation:
            Nothing is lost: what was read is given next time.
        """
        self._ask()
        self._is_interrupted = self.is_stop_typed = False
        while "\n" not in self._text and not self._is_ended:
            await self._wait()
            if self._is_interrupted:
                self._drop_line()
            else:
                self._take()
        line, mark, self._text = self._text.partition("\n")
        if not line and not mark:
            raise EOFError
        return line.removesuffix("\r")

    def _drop_line(self) -> None:
        """Drop what was begun; a whole line was there before Ctrl-C was pressed, which is meant for its reply."""
        self._text += self._decoder.decode(take_typed(self._descriptor))
        if "\n" in self._text:
            self.is_stop_typed = True
            return
        had_text = bool(self._text)
        self._text = ""
        raise PromptInterrupted(had_text=had_text)

    def interrupt(self) -> None:
        """End the wait of `read`; a line that was begun is dropped."""
        self._is_interrupted = True
        self._on_ready()

    def tell(self, text: str) -> None:
        """Show *text* on a line of its own and ask again; only while `read` waits."""
        if self._screen is None:
            print(text, flush=True)
            return
        self._screen.is_open = True  # behind the sign
        self._screen.line(text, "dim")
        self._ask()

    def _ask(self) -> None:
        if self._screen is not None:
            self._screen.mark(_SIGN, "bold")
            self._screen.is_open = False  # the terminal shows the line break that a person types

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        try:
            loop.add_reader(self._descriptor, self._on_ready)
        except (OSError, NotImplementedError):  # a file, which never lets one wait; or no Unix
            return
        try:
            await self._waiter
        finally:
            loop.remove_reader(self._descriptor)

    def _on_ready(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> None:
        try:
            portion = os.read(self._descriptor, _PORTION)
        except OSError:  # the terminal is gone
            portion = b""
        self._is_ended = not portion
        self._text += self._decoder.decode(portion, final=not portion)
