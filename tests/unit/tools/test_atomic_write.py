"""A file is replaced whole or not at all, whatever ends the block that writes it."""

import asyncio
import os
import resource
import stat
import threading

import pytest

from loopctl import Agent, Cancelled, CancelSignal, RunConfig, Tool, ToolContext, Urgency, UsageError
from loopctl.record import CallStatus
from loopctl.testing import ScriptedModel, call, virtual_run
from loopctl.tools import TEMPORARY_PREFIX


@pytest.fixture
def ctx():
    return ToolContext("c1", "save", CancelSignal().token)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("old")
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_takes_the_place_of_the_file_when_the_block_is_left(ctx, file):
    with ctx.atomic_write(file) as writing:
        writing.write("new")
        writing.flush()
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert names(file.parent) == ["notes.txt"]


def test_a_new_file_gets_the_permissions_that_the_process_gives(ctx, tmp_path):
    old = os.umask(0o027)
    try:
        with ctx.atomic_write(tmp_path / "new.txt") as writing:
            writing.write("new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4755])
def test_the_permissions_of_the_file_stay(ctx, file, mode):
    file.chmod(mode)
    with ctx.atomic_write(str(file)) as writing:
        (temporary,) = [path for path in file.parent.iterdir() if path != file]
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody reads it before it has its name
        writing.write("new")
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can give a file away")
def test_the_owner_of_the_file_stays(ctx, file):
    os.chown(file, 1234, 2345)
    with ctx.atomic_write(file) as writing:
        writing.write("new")
    found = file.stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_text_is_utf_8_unless_another_encoding_is_given_and_bytes_are_bytes(ctx, file):
    with ctx.atomic_write(file) as writing:
        writing.write("Grüße\n")
    assert file.read_bytes() == "Grüße\n".encode()
    with ctx.atomic_write(file, encoding="latin-1", newline="\r\n") as writing:
        writing.write("Grüße\n")
    assert file.read_bytes() == "Grüße\r\n".encode("latin-1")
    with ctx.atomic_write(file, "wb") as writing:
        writing.write(b"\x00\xff")
    assert file.read_bytes() == b"\x00\xff"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_an_exception_leaves_the_file_as_it_was_and_nothing_beside_it(ctx, file, error):
    with pytest.raises(error), ctx.atomic_write(file) as writing:
        writing.write("half")
        raise error
    assert file.read_text() == "old"
    assert names(file.parent) == ["notes.txt"]


def test_a_text_that_the_encoding_lacks_leaves_the_file_as_it_was(ctx, file):
    with pytest.raises(UnicodeEncodeError), ctx.atomic_write(file, encoding="ascii") as writing:
        writing.write("half, and ü")
    assert file.read_text() == "old"
    assert names(file.parent) == ["notes.txt"]


def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(ctx, file):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"), ctx.atomic_write(file) as writing:
            writing.write("x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "old"
    assert names(file.parent) == ["notes.txt"]


def test_a_block_may_close_the_file_by_itself(ctx, file):
    with ctx.atomic_write(file) as writing:
        writing.write("new")
        writing.close()
    assert file.read_text() == "new"


def test_a_link_is_followed_and_stays(ctx, file, tmp_path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "here.txt"
    link.symlink_to("../notes.txt")
    with ctx.atomic_write(link) as writing:
        writing.write("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert names(link.parent) == ["here.txt"]
    dangling = tmp_path / "links" / "later.txt"
    dangling.symlink_to("../later.txt")
    with ctx.atomic_write(dangling) as writing:
        writing.write("now")
    assert (tmp_path / "later.txt").read_text() == "now"


def test_a_relative_path_means_the_folder_that_the_process_was_in_when_the_block_began(
    ctx, file, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with ctx.atomic_write("notes.txt") as writing:
        monkeypatch.chdir(tmp_path / "elsewhere")
        writing.write("new")
    assert file.read_text() == "new"


def test_what_is_no_file_is_refused_and_not_waited_for(ctx, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/null"):
        with pytest.raises(UsageError, match="is not a regular file"), ctx.atomic_write(path):
            pass
    with pytest.raises(IsADirectoryError), ctx.atomic_write(f"{tmp_path}/new/"):
        pass
    with (
        pytest.raises(FileNotFoundError, match=r"no such folder.*missing"),
        ctx.atomic_write(tmp_path / "missing" / "x"),
    ):
        pass
    with pytest.raises(UsageError, match="empty"), ctx.atomic_write(""):
        pass
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"), ctx.atomic_write(loop):
        pass


@pytest.mark.parametrize("mode", ["a", "x", "r+", "w+", "rb"])
def test_only_writing_anew_is_possible(ctx, file, mode):
    with pytest.raises(UsageError, match="'w' or 'wb'"), ctx.atomic_write(file, mode):
        pass


@pytest.mark.parametrize("form", [{"newline": 3}, {"newline": "x"}, {"encoding": 3}, {"encoding": "none"}], ids=str)
def test_a_form_of_text_that_is_none_leaves_the_file_as_it_was_and_nothing_open(ctx, file, form):
    before = os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else []
    with pytest.raises((TypeError, ValueError, LookupError)), ctx.atomic_write(file, **form):
        pass
    assert file.read_text() == "old"
    assert names(file.parent) == ["notes.txt"]
    assert not before or os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everything")
def test_a_file_that_may_not_be_written_is_not_replaced(ctx, file):
    file.chmod(0o444)
    with pytest.raises(PermissionError), ctx.atomic_write(file):
        pass


def test_the_next_write_sweeps_what_the_dead_left_and_nothing_else(ctx, file):
    left, folder = file.parent / f"{TEMPORARY_PREFIX}dead", file.parent / f"{TEMPORARY_PREFIX}folder"
    left.write_text("half")
    folder.mkdir()
    (folder / "deep").write_text("half")
    other = file.parent / "other.tmp"
    other.write_text("theirs")
    os.mkfifo(file.parent / f"{TEMPORARY_PREFIX}pipe")
    (file.parent / f"{TEMPORARY_PREFIX}link").symlink_to(other)
    with ctx.atomic_write(file) as outer, ctx.atomic_write(file.parent / "second.txt") as inner:
        outer.write("1")
        inner.write("2")
    assert (file.read_text(), (file.parent / "second.txt").read_text()) == ("1", "2")
    assert names(file.parent) == [f"{TEMPORARY_PREFIX}link", "notes.txt", "other.tmp", "second.txt"]


def test_writers_of_one_file_do_not_mix(ctx, file):
    start = threading.Barrier(8)

    def write(number):
        start.wait()
        for _ in range(20):
            with ctx.atomic_write(file) as writing:
                writing.writelines([str(number)] * 1000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = file.read_text()
    assert text == text[0] * 1000
    assert names(file.parent) == ["notes.txt"]


def test_a_call_that_was_asked_to_stop_begins_no_write(file):
    signal = CancelSignal()
    signal.cancel("enough")
    with pytest.raises(Cancelled), ToolContext("c1", "save", signal.token).atomic_write(file):
        pass
    assert names(file.parent) == ["notes.txt"]


def run_until_stopped(tool, begun: threading.Event | asyncio.Event, urgency=Urgency.STOP):
    """Run *tool* once and stop it when it has *begun*; gives the session and the run."""

    async def main():
        config = RunConfig(grace=60)
        session = Agent(ScriptedModel([call("save", {})], "Done."), tools=[Tool(tool)], config=config).session()
        handle = session.start("save it")
        while not begun.is_set():
            await asyncio.sleep(0.001)
        handle.cancel("enough", urgency=urgency)
        return session, await handle

    return main


def test_a_stopped_async_tool_leaves_the_file_as_it_was(file):
    begun = asyncio.Event()

    async def save(ctx: ToolContext) -> str:
        """Save."""
        with ctx.atomic_write(file) as writing:
            writing.write("half")
            begun.set()
            await asyncio.sleep(3600)
        return "saved"

    _, run = virtual_run(run_until_stopped(save, begun))
    assert run.tool_calls[0].status is CallStatus.INTERRUPTED
    assert file.read_text() == "old"
    assert names(file.parent) == ["notes.txt"]


def test_a_tool_that_comes_to_its_end_within_the_grace_has_written(file):
    begun = threading.Event()

    def save(ctx: ToolContext) -> str:
        """Save."""
        with ctx.atomic_write(file) as writing:
            writing.write("new")
            begun.set()
            ctx.signal.wait()
        return "saved"

    _, run = asyncio.run(run_until_stopped(save, begun)())
    assert (run.outcome, run.tool_calls[0].status) == ("cancelled", CallStatus.COMPLETED)
    assert file.read_text() == "new"


def test_an_abandoned_call_replaces_nothing_when_it_comes_to_its_end_after_all(file):
    """The file may have been written since, by a later call or by a person."""
    begun, go_on = threading.Event(), threading.Event()

    def save(ctx: ToolContext) -> str:
        """Save."""
        with ctx.atomic_write(file) as writing:
            writing.write("late")
            begun.set()
            go_on.wait()
        return "saved"

    async def main():
        session, run = await run_until_stopped(save, begun, Urgency.ABANDON)()
        assert run.tool_calls[0].status is CallStatus.ABANDONED
        file.write_text("written since")
        go_on.set()
        await session.aclose()
        return session.stragglers[0]

    straggler = asyncio.run(main())
    assert isinstance(straggler.error, Cancelled)
    assert file.read_text() == "written since"
    assert names(file.parent) == ["notes.txt"]


def test_after_the_end_of_the_call_nothing_is_begun_either(file):
    kept = []

    async def save(ctx: ToolContext) -> str:
        """Save."""
        kept.append(ctx)
        return "saved"

    async def main():
        await Agent(ScriptedModel([call("save", {})], "Done."), tools=[Tool(save)]).session().run("save it")
        with pytest.raises(UsageError, match="has ended"), kept[0].atomic_write(file):
            pass
        with pytest.raises(UsageError, match="has ended"):
            _ = kept[0].temp_dir

    virtual_run(main)


@pytest.mark.parametrize("name", ["sub/a.txt", "../a.txt", "..", ".", "/a.txt"])
def test_in_an_open_folder_only_a_name_is_taken(ctx, tmp_path, name):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(UsageError, match="takes the name of a file"), ctx.atomic_write(name, dir_fd=folder):
            pass
    finally:
        os.close(folder)


def test_in_an_open_folder_a_file_is_replaced_wherever_that_folder_has_gone(ctx, file, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / f"{TEMPORARY_PREFIX}dead").touch()
        tmp_path.rename(tmp_path.with_name("gone"))
        with ctx.atomic_write("notes.txt", "wb", dir_fd=folder) as writing:
            writing.write(b"new")
    finally:
        os.close(folder)
    assert names(tmp_path.with_name("gone")) == ["notes.txt"]
    assert (tmp_path.with_name("gone") / "notes.txt").read_text() == "new"
