"""The command `loopctl`: a chat at the terminal, and single runs for scripts."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: The arguments after the command's name; None takes the process's own.

    Returns:
        The exit code. The process ends in here if a signal came, or if something is left that would hold up the
        interpreter's own end.

    Raises:
        SystemExit: The command line is wrong (2), or asked for help or the version (0).
    """
    # Everything is loaded in here, so that a Ctrl-C while it loads is no traceback either.
    try:
        from loopctl.cli._main import command

        return command(argv)
    except KeyboardInterrupt:
        return 130
