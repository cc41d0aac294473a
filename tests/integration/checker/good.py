"""Tools that are safe to abandon; with real waits, processes, threads, connections and files."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
import threading
from contextlib import aclosing, closing
from pathlib import Path

import httpx2

from loopctl import ToolContext, tool

ROWS = [f"row {number}\n" * 100 for number in range(3)]
LOCK = asyncio.Lock()
BOLT = threading.Lock()


async def writes_whole(path: str, ctx: ToolContext) -> None:
    with ctx.atomic_write(path) as file:
        for row in ROWS:
            file.write(row)
            await asyncio.sleep(0.001)


def writes_whole_in_a_thread(path: str, ctx: ToolContext) -> None:
    with ctx.atomic_write(path, newline="") as file:
        table = csv.writer(file)
        for row in ROWS:
            ctx.signal.raise_if_cancelled()
            table.writerow([row])


async def makes_the_folder_first(path: str, ctx: ToolContext) -> None:
    target = Path("reports") / "2026" / path
    target.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.sleep(0.001)
    with ctx.atomic_write(target) as file:
        file.write("whole")


async def keeps_parts_in_its_folder(path: str, ctx: ToolContext) -> None:
    part = ctx.temp_dir / "part"
    part.write_text("".join(ROWS))
    await asyncio.sleep(0.001)
    with ctx.atomic_write(path) as file:
        file.write(part.read_text())


async def holds_locks_in_blocks(path: str, ctx: ToolContext) -> None:
    async with LOCK:
        await asyncio.sleep(0.001)
    with BOLT, ctx.atomic_write(path) as file:
        file.write("whole")


async def runs_commands(path: str, ctx: ToolContext) -> None:
    done = await ctx.run_process(["sh", "-c", "sleep 0.05; echo done"], check=True)
    with ctx.atomic_write(path) as file:
        file.write(done.stdout)


async def fetches(url: str, path: str, ctx: ToolContext) -> int:
    async with (
        httpx2.AsyncClient(timeout=5, trust_env=False, verify=False) as client,
        client.stream("GET", url) as response,
    ):
        text = [chunk async for chunk in response.aiter_text()]
    with ctx.atomic_write(path) as file:
        file.write("".join(text))
    return len(text)


async def works_in_threads(path: str, ctx: ToolContext) -> None:
    rows = await asyncio.gather(*(asyncio.to_thread(str.upper, row) for row in ROWS))
    with ctx.atomic_write(path) as file:
        file.writelines(rows)


async def groups_its_tasks(path: str, ctx: ToolContext) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_shout(row)) for row in ROWS]
    with ctx.atomic_write(path) as file:
        file.writelines(task.result() for task in tasks)


async def _shout(text: str) -> str:
    await asyncio.sleep(0.001)
    return text.upper()


async def transfers(new: str) -> None:
    with closing(sqlite3.connect(new)) as database, database:
        database.execute("begin")
        database.execute("create table if not exists accounts (name text primary key, amount integer)")
        for name in ("from", "to"):
            database.execute("insert or replace into accounts values (?, 3)", (name,))
            await asyncio.sleep(0.001)


async def charges_once(path: str, ctx: ToolContext) -> dict[str, int]:
    async def charge() -> dict[str, int]:
        with open(path, "a") as book:
            book.write("3 EUR\n")
        await asyncio.sleep(0.001)
        return {"receipt": 17}

    await asyncio.sleep(0.001)
    return await ctx.once("pay invoice 17", charge)


async def reads(path: str) -> int:
    with open(path) as file:
        for _ in file:
            await asyncio.sleep(0)
    return 3


async def iterates(path: str) -> int:
    async with aclosing(_numbers()) as source:
        return sum([number async for number in source])


async def _numbers():
    for number in range(3):
        await asyncio.sleep(0.001)
        yield number


async def cleans_up_with_a_bound(path: str, ctx: ToolContext) -> None:
    try:
        await asyncio.sleep(0.001)
    finally:
        async with asyncio.timeout(0.1):
            await asyncio.sleep(0.01)


@tool(on_cancel="finish", finish_within=5)
async def finishes(path: str, ctx: ToolContext) -> str:
    await ctx.sleep(0.005)
    with ctx.atomic_write(path) as file:
        json.dump({"paid": True}, file)
    await asyncio.sleep(0.001)
    return "paid"


def joins_its_thread(path: str, ctx: ToolContext) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(ROWS))
    thread.start()
    try:
        while thread.is_alive() and not ctx.signal.wait(0.001):
            pass
    finally:
        thread.join()
    ctx.signal.raise_if_cancelled()
    with ctx.atomic_write(path) as file:
        file.writelines(found)


_client: list[httpx2.AsyncClient] = []


async def keeps_a_client(url: str, path: str) -> int:
    """A connection that stays open between calls is no leak: each whole run leaves it."""
    if not _client:
        _client.append(httpx2.AsyncClient(timeout=5, trust_env=False, verify=False))
    return len((await _client[0].get(url)).text)
