"""The server's process: started once, and gone with whoever wanted it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from loopctl.errors import ModelError
from loopctl.providers.local import LocalModel

USER = """
import asyncio, os, sys, threading, time
from loopctl.providers.local import LocalModel
model = LocalModel(context=512, threads=1)
stage = sys.argv[1]
async def main():
    task = asyncio.create_task(model.prepare())
    if stage == "loading":
        while model.pid is None or ".gguf" not in open(f"/proc/{model.pid}/maps").read():
            await asyncio.sleep(0)
    else:
        await task
    print(model.pid, flush=True)
    await asyncio.sleep(0 if stage == "exit" else 600)
if stage == "orphan":
    thread = threading.Thread(target=lambda: asyncio.run(model.prepare()))
    thread.start()
    thread.join()
    if not (forked := os.fork()):
        time.sleep(600)
    print(model.pid, forked, flush=True)
    time.sleep(600)
elif stage == "fork":
    asyncio.run(model.prepare())
    server = model.pid
    if not (forked := os.fork()):
        print(model.pid, flush=True)
        sys.exit()
    os.waitpid(forked, 0)
    time.sleep(0.2)
    asyncio.run(model.prepare())
    print(model.pid == server, flush=True)
else:
    asyncio.run(main())
"""


@pytest.fixture
def user(tmp_path):
    """Start a program that uses a model, in a folder with a trap in it; give it and the first line it prints."""
    (tmp_path / "json.py").write_text("raise SystemExit('the working directory was on the path')")
    started = []

    def start(stage):
        process = subprocess.Popen(
            [sys.executable, "-Pc", USER, stage], stdout=subprocess.PIPE, cwd=tmp_path, text=True
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("when", ["starting", "loading"])
def test_a_start_that_is_cancelled_leaves_no_process_not_even_a_zombie(own_model, talk, when):
    async def main():
        task = asyncio.create_task(own_model.prepare())
        assert await talk.until(lambda: own_model.pid is not None)
        if when == "loading":
            assert await talk.until(lambda: talk.is_loading(own_model.pid))
            os.kill(own_model.pid, signal.SIGSTOP)  # it will not leave by itself
        pid = own_model.pid
        assert talk.runs(pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not talk.exists(pid)
        assert own_model.pid is None

    asyncio.run(main())


def test_who_still_waits_gets_the_server_that_a_cancelled_one_had_started(own_model, talk):
    async def main():
        first = asyncio.create_task(own_model.prepare())
        second = asyncio.create_task(own_model.prepare())
        assert await talk.until(lambda: own_model.pid is not None)
        await asyncio.sleep(0)
        pid = own_model.pid
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert own_model.pid == pid
        assert talk.runs(pid)
        assert await talk.first_words(own_model)

    asyncio.run(main())


def test_the_last_of_several_who_gives_up_ends_the_start(own_model, talk):
    async def main():
        tasks = [asyncio.create_task(own_model.prepare()) for _ in range(3)]
        assert await talk.until(lambda: own_model.pid is not None)
        pid = own_model.pid
        for task in tasks:
            task.cancel()
        assert all(isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*tasks, return_exceptions=True))
        assert not talk.exists(pid)

    asyncio.run(main())


def test_a_start_that_one_loop_gives_up_is_finished_for_the_other(own_model, talk):
    pids = []

    def other():
        asyncio.run(own_model.prepare())
        pids.append(own_model.pid)

    async def main():
        task = asyncio.create_task(own_model.prepare())
        assert await talk.until(lambda: own_model.pid is not None)
        pid = own_model.pid
        thread = threading.Thread(target=other)
        thread.start()
        assert await talk.until(lambda: own_model._server._life.waiting == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await talk.until(lambda: not thread.is_alive())
        assert pids == [pid]

    asyncio.run(main())


def test_a_server_started_by_a_thread_outlives_that_thread(own_model, talk):
    """Linux would send the parent-death signal at the end of the *thread*, so it is not asked for there."""
    thread = threading.Thread(target=lambda: asyncio.run(own_model.prepare()))
    thread.start()
    thread.join()
    pid = own_model.pid
    assert pid is not None
    assert asyncio.run(talk.first_words(own_model))
    assert own_model.pid == pid


def test_closing_ends_and_reaps_the_server_and_a_later_use_starts_a_new_one(own_model, talk):
    async def main():
        await own_model.prepare()
        pid = own_model.pid
        await own_model.aclose()
        assert not talk.exists(pid)
        assert own_model.pid is None
        assert await own_model.slots() == []
        assert not await own_model.is_busy()
        await own_model.aclose()
        await own_model.prepare()
        assert own_model.pid != pid

    asyncio.run(main())


def test_closing_while_it_loads_fails_who_waits(own_model, talk):
    async def main():
        task = asyncio.create_task(own_model.prepare())
        assert await talk.until(lambda: own_model.pid is not None)
        await own_model.aclose()
        with pytest.raises(ModelError, match="ended while it loaded"):
            await task

    asyncio.run(main())


def test_a_model_that_is_dropped_takes_its_server_along(talk):
    model = LocalModel(context=512, threads=1)
    asyncio.run(model.prepare())
    pid = model.pid
    assert talk.runs(pid)
    del model
    gc.collect()
    assert not talk.exists(pid)


def test_a_file_that_only_looks_like_a_model_is_blamed_with_the_servers_last_words(tmp_path, talk):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + bytes(4096))
    model = LocalModel(file)
    with pytest.raises(
        ModelError, match=r"local:broken ended while it loaded .*exit status 1.*Check the file"
    ) as caught:
        asyncio.run(model.prepare())
    assert not caught.value.retryable
    assert f"failed to load model from {file}" in str(caught.value)
    assert model.pid is None


@pytest.mark.parametrize("stage", ["loading", "ready"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_a_killed_parent(user, stage, number, talk):
    process, pid = user(stage)
    assert talk.runs(int(pid))
    os.kill(process.pid, number)
    assert asyncio.run(talk.until(lambda: not talk.runs(int(pid))))


def test_the_end_of_its_input_ends_a_server_even_if_a_fork_of_the_parent_lives_on(user, talk):
    """Started by a thread, so Linux's parent-death signal plays no part."""
    process, line = user("orphan")
    server, forked = map(int, line.split())
    try:
        process.kill()
        assert asyncio.run(talk.until(lambda: not talk.runs(server)))
        assert talk.runs(forked)
    finally:
        os.kill(forked, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_the_parent_death_signal_ends_a_server_whose_input_stays_open(user, talk):
    process, pid = user("ready")
    held = os.open(f"/proc/{pid}/fd/0", os.O_WRONLY)
    try:
        process.kill()
        assert asyncio.run(talk.until(lambda: not talk.runs(int(pid))))
    finally:
        os.close(held)


def test_the_server_is_gone_when_the_program_ends(user, talk):
    process, pid = user("exit")
    assert process.wait(30) == 0
    assert not talk.runs(int(pid))


def test_a_fork_neither_owns_nor_ends_the_server(user):
    process, line = user("fork")
    assert line == "None"
    assert process.stdout.read().strip() == "True"
