"""A Stop button: the callback of a user interface cancels the run that is on the screen, from its own thread.

Run it: `python examples/stop_button.py`. A timer presses the button; the model plays a script, so that it needs no key.
"""

import threading

import loopctl
from loopctl import Agent, RunEnded, RunHandle, TextDelta
from loopctl.testing import ScriptedModel, pause, say


class Screen:
    """What a user interface knows: the run that is shown, the text so far, and a button."""

    def __init__(self) -> None:
        """Show nothing."""
        self.handle: RunHandle | None = None
        self.text = ""

    def on_stop_clicked(self) -> None:
        """Stop what is shown. Called in the interface's own thread; a late click changes nothing."""
        if self.handle is not None and self.handle.cancel("the Stop button"):
            print("(stopping)")

    async def show(self, handle: RunHandle) -> None:
        """Show a run until it ends."""
        self.handle = handle
        async for event in handle:
            match event:
                case TextDelta(text):
                    self.text += text
                case RunEnded(run) if run.stop is not None:
                    self.text += f" … [stopped after {run.stop.latency * 1000:.0f} ms]"
                case _:
                    pass


async def main() -> None:
    """Show a reply, and have it stopped."""
    words = [piece for n in range(1000) for piece in (say(f"word {n} "), pause(0.01))]
    session = Agent(ScriptedModel(words, "Back again.")).session()
    screen = Screen()
    click = threading.Timer(0.3, screen.on_stop_clicked)
    click.start()
    await screen.show(session.start("Say many words."))
    click.join()
    print(screen.text[-60:])
    assert "[stopped after" in screen.text

    screen.text = ""
    await screen.show(session.start("Are you there?"))
    screen.on_stop_clicked()  # too late: this changes nothing
    print(screen.text)
    assert session.runs[-1].outcome == "completed"


if __name__ == "__main__":
    loopctl.run(main())
