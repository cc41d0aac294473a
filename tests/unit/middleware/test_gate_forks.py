"""A gate in a forked process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable

import pytest

from loopctl import CancelSignal
from loopctl.middleware import RateGate


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_wait_for_a_permit_that_its_parent_holds() -> None:
    gate = RateGate(concurrent=1)

    async def enter(then: Callable[[], object]) -> None:
        async with gate.permit(CancelSignal()):
            then()

    def fork() -> None:
        child = os.fork()
        if child == 0:  # in a thread of the test that runs no loop
            with contextlib.suppress(BaseException):
                asyncio.run(asyncio.wait_for(enter(lambda: os._exit(0)), 5))
            os._exit(1)
        codes.append(os.waitpid(child, 0)[1])

    def beside() -> None:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()

    codes: list[int] = []
    asyncio.run(enter(beside))
    assert codes == [0]
