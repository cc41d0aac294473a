"""The tool that runs a line of shell: `run_command`.

Rules: it is not confined: a command can do whatever the user can, which is why each asks first. It begins in the
workspace, ends with the call, and is bounded in time and in what it gives.
"""

from __future__ import annotations

from loopctl.builtin._workspace import Workspace
from loopctl.errors import ToolError
from loopctl.tools import ToolContext

__all__ = ["Running"]

_SECONDS = 120.0
_MOST_SECONDS = 3600.0
_OUTPUT = 30_000


class Running:
    """Runs commands in one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Run in *workspace*."""
        self._workspace = workspace

    async def run_command(self, command: str, ctx: ToolContext, seconds: float = _SECONDS) -> str:
        """Run a line of shell in the workspace, and give its exit code and what it wrote.

        It has no input, and what it leaves in the background is ended with it.

        Args:
            command: The line, for sh.
            seconds: How long it may take, at most 3600; then it is stopped.

        Cancellation:
            A checkpoint: TERM to all that came of it, then KILL, within the grace.
        """
        if not command.strip():
            raise ToolError("command is empty: give a line of shell.")
        if "\0" in command:
            raise ToolError("command holds a zero, which no command can.")
        if not 0 < seconds <= _MOST_SECONDS:
            raise ToolError(f"seconds is a number of more than 0, at most {_MOST_SECONDS:g}.")
        try:
            result = await ctx.run_process(
                ["sh", "-c", command],
                cwd=self._workspace.path,
                timeout=seconds,
                output_limit=_OUTPUT,
                on_output=lambda line, _: ctx.progress(line),
            )
        except TimeoutError as error:
            raise ToolError(f"{error} A longer one: give seconds.") from error
        ended = f"exit code {result.returncode}" if result.returncode >= 0 else f"killed by signal {-result.returncode}"
        parts = [ended, result.stdout, f"stderr:\n{result.stderr}" if result.stderr else ""]
        return "\n".join(part.rstrip("\n") for part in parts if part)
