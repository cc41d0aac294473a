"""A victim that writes one file again and again, as a tool would."""

from __future__ import annotations

from pathlib import Path

from loopctl import CancelSignal, ToolContext

SIZE = 200_000
WRITING, SAVED = 1, 2


def text(version: int) -> str:
    return f"{version:06}\n" * (SIZE // 7)


def work(mark, folder: Path, number: int) -> None:
    ctx = ToolContext("c1", "save", CancelSignal().token)
    for version in range(number, number + 1000):
        mark(WRITING)
        with ctx.atomic_write(folder / "kept" / "data.txt") as file:
            file.writelines(f"{version:06}\n" for _ in range(SIZE // 7))
        mark(SAVED)
