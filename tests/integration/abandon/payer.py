"""A victim that pays one invoice after the other, each once; what is really paid stands in a file outside."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from pathlib import Path

from loopctl.store import Ledger

BEFORE, INTENDED, PAID, RECORDED = 1, 2, 3, 4
"""Before `once`; in the function, nothing paid; in the function, paid; after `once`."""


def pay(mark, folder: Path, key: str) -> str:
    mark(INTENDED)
    time.sleep(0.005)
    descriptor = os.open(folder / "paid.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)
    mark(PAID)
    time.sleep(0.005)
    return f"receipt of {key}"


async def pay_on_a_loop(mark, folder: Path, key: str) -> str:
    return pay(mark, folder, key)


def work(mark, folder: Path, number: int) -> None:
    ledger = Ledger(folder / "store.sqlite")
    for invoice in range(1000):
        key = f"{number}/{invoice}"
        mark(BEFORE)
        if number % 2:
            ledger.once(key, functools.partial(pay, mark, folder, key))
        else:
            asyncio.run(_await(ledger.once(key, functools.partial(pay_on_a_loop, mark, folder, key))))
        mark(RECORDED)


async def _await(awaitable):
    return await awaitable
