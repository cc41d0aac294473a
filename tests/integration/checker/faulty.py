"""Tools that are not safe to abandon, each with one fault. `# here: KIND` marks a line that must be told, for that;
`# here: KIND, killed` one that only a kill shows."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from loopctl import ToolContext

ROWS = [f"row {number}\n" * 100 for number in range(3)]


async def writes_in_place(path: str) -> None:
    with open(path, "w") as file:
        for row in ROWS:
            file.write(row)
            file.flush()
            await asyncio.sleep(0.001)  # here: half


def writes_in_one_call(path: str) -> None:
    Path(path).write_text("".join(ROWS))  # here: half, killed


def writes_in_one_line(path: str) -> None:
    print("".join(ROWS), file=open(path, "w"))  # noqa: SIM115 # here: half, killed


def writes_during_one_line(path: str) -> None:
    with open(path, "r+") as file:
        file.write("new\n"), file.flush(), time.sleep(0.2), file.truncate()  # here: half, killed


async def leaves_its_part_file(path: str) -> None:
    part = Path(f"{path}.part")
    part.write_text("".join(ROWS))
    await asyncio.sleep(0.001)  # here: left
    part.rename(path)


async def leaves_a_temporary_folder(path: str, ctx: ToolContext) -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "part").write_text("".join(ROWS))
    await asyncio.sleep(0.001)  # here: temporary
    with ctx.atomic_write(path) as file:
        file.write((folder / "part").read_text())
    shutil.rmtree(folder)


async def removes_first(path: str, ctx: ToolContext) -> None:
    Path(path).unlink(missing_ok=True)
    await asyncio.sleep(0.001)  # here: gone
    with ctx.atomic_write(path) as file:
        file.write("".join(ROWS))


async def writes_two_files(path: str, ctx: ToolContext) -> None:
    for name in (path, f"{path}.index"):
        with ctx.atomic_write(name) as file:
            file.write(name)
        await asyncio.sleep(0.001)  # here: mixed


async def commits_in_halves(new: str) -> None:
    with closing(sqlite3.connect(new)) as database:
        database.execute("create table if not exists accounts (name text primary key, amount integer)")
        for name in ("from", "to"):
            database.execute("insert or replace into accounts values (?, 3)", (name,))
            database.commit()
            await asyncio.sleep(0.001)  # here: rows


GATE = asyncio.Lock()


async def keeps_the_lock() -> None:
    await GATE.acquire()
    await asyncio.sleep(0.001)  # here: lock
    GATE.release()


BOLT = threading.Lock()


def keeps_the_lock_of_threads(ctx: ToolContext) -> None:
    BOLT.acquire()
    ctx.signal.raise_if_cancelled()  # here: lock
    BOLT.release()


async def keeps_the_lock_file(path: str) -> None:
    os.close(os.open(f"{path}.lock", os.O_CREAT | os.O_EXCL))
    await asyncio.sleep(0.001)  # here: left
    os.unlink(f"{path}.lock")


async def leaves_a_child() -> None:
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    await asyncio.sleep(0.001)  # here: process
    child.kill()
    child.wait()


async def leaves_a_thread() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    thread.start()
    await asyncio.sleep(0.001)  # here: thread
    stop.set()
    thread.join()


async def leaves_work_in_a_thread() -> None:
    await asyncio.to_thread(time.sleep, 0.8)  # here: thread


async def leaves_a_task() -> None:
    task = asyncio.create_task(asyncio.sleep(30))
    await asyncio.sleep(0.001)  # here: task
    task.cancel()
    await asyncio.wait([task])


async def leaves_shielded_work() -> None:
    await asyncio.shield(asyncio.sleep(0.9))  # here: task


async def leaves_a_descriptor(path: str) -> None:
    descriptor = os.open(".", os.O_RDONLY)
    await asyncio.sleep(0.001)  # here: descriptor
    os.close(descriptor)


async def leaves_closing_to_the_collector() -> None:
    file = open(os.devnull)  # noqa: SIM115
    await asyncio.sleep(0.001)  # here: collected
    file.close()


async def charges_twice(new: str) -> None:
    with open(new, "a") as book:
        book.write("3 EUR\n")
    await asyncio.sleep(0.001)  # here: twice


async def swallows_the_cancel() -> str:
    try:
        await asyncio.sleep(0.001)  # here: swallowed
    except asyncio.CancelledError:
        return "nearly"
    return "done"


async def goes_on_after_the_cancel() -> None:
    for _ in range(2):
        try:
            await asyncio.sleep(0.001)  # here: endless
        except asyncio.CancelledError:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass


async def cleans_up_without_a_bound() -> None:
    is_whole = False
    try:
        await asyncio.sleep(0.001)  # here: slow
        is_whole = True
    finally:
        await asyncio.sleep(0 if is_whole else 60)


async def answers_with_an_error() -> None:
    try:
        await asyncio.sleep(0.001)  # here: odd
    except asyncio.CancelledError:
        raise ConnectionError("the other side is gone") from None


async def blocks_the_loop_when_cancelled() -> None:
    try:
        await asyncio.sleep(0.001)  # here: blocks
    except asyncio.CancelledError:
        time.sleep(600)
        raise


def hears_and_goes_on(ctx: ToolContext) -> None:
    if ctx.is_cancelled():  # here: endless
        time.sleep(600)


async def finds_no_way_again(new: str) -> None:
    Path(new).mkdir()
    await asyncio.sleep(0.001)  # here: fails
    (Path(new) / "x").touch()


async def changes_the_folder() -> None:
    before = Path.cwd()
    os.chdir("/")
    await asyncio.sleep(0.001)  # here: folder
    os.chdir(before)
