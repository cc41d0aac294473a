"""The file tools touch what is in the workspace, and nothing else, by whatever way it is asked for."""

import os
import threading

import pytest

from loopctl import CancelSignal, ToolContext, ToolError, UsageError
from loopctl.builtin import builtin_tools
from loopctl.builtin._workspace import Workspace

SECRET = "the secret"


@pytest.fixture
def ctx():
    return ToolContext("c1", "tool", CancelSignal().token)


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def inside(tmp_path, outside):
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("inside")
    (folder / "file-link").symlink_to(outside / "secret.txt")
    (folder / "folder-link").symlink_to(outside)
    (folder / "up-link").symlink_to("..")
    (folder / "sub" / "deep-link").symlink_to("../../outside")
    (folder / "chain").symlink_to("folder-link")
    (folder / "inner-link").symlink_to("sub/a.txt")
    (folder / "dangling").symlink_to(outside / "new.txt")
    (folder / "loop").symlink_to("loop")
    return folder


ESCAPES = [
    "../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "./../outside/secret.txt",
    "sub/./.././../outside/secret.txt",
    "..",
    "../work/../outside/secret.txt",
    "{outside}/secret.txt",
    "//{outside}/secret.txt",
    "/etc/passwd",
    "/proc/self/root{outside}/secret.txt",
    "{inside}/../outside/secret.txt",
    "{inside}-sibling/x",
    "file-link",
    "folder-link/secret.txt",
    "up-link/outside/secret.txt",
    "sub/deep-link/secret.txt",
    "chain/secret.txt",
    "dangling",
    "loop",
    "loop/x",
    "folder-link/../outside/secret.txt",
    "sub\0/../../outside/secret.txt",
]
USES = {
    "read_file": {},
    "write_file": {"content": "changed"},
    "edit_file": {"old": SECRET, "new": "changed"},
    "list_dir": {},
    "search": {"text": SECRET},
}


def use(name, inside, ctx, **arguments):
    (tool,) = builtin_tools(inside, [name])
    return tool.call(tool.bind(arguments), ctx)


@pytest.mark.parametrize("way", ESCAPES, ids=lambda way: way.replace("\0", "zero"))
@pytest.mark.parametrize("name", USES)
def test_no_way_leads_outside(name, way, inside, outside, ctx):
    before = sorted(os.listdir(outside))
    with pytest.raises(ToolError) as caught:
        use(name, inside, ctx, path=way.format(outside=outside, inside=inside), **USES[name])
    assert SECRET not in str(caught.value)
    assert (outside / "secret.txt").read_text() == SECRET
    assert sorted(os.listdir(outside)) == before
    assert os.path.islink(inside / "file-link")


def test_a_link_to_a_file_inside_is_refused_too_with_what_to_do(inside, ctx):
    with pytest.raises(ToolError, match=r"inner-link is a link, and links are not followed. Give the path of what it"):
        use("read_file", inside, ctx, path="inner-link")


@pytest.mark.parametrize("way", ["sub/a.txt", "./sub//a.txt", "sub/../sub/a.txt", "{inside}/sub/a.txt"])
def test_ways_that_stay_inside_are_taken_also_as_absolute_paths(way, inside, ctx):
    assert use("read_file", inside, ctx, path=way.format(inside=inside)) == "inside"


def test_a_search_enters_no_link(inside, ctx):
    assert use("search", inside, ctx, text=SECRET).startswith("nothing found")
    assert "secret.txt" not in use("search", inside, ctx)


def test_a_list_does_not_say_what_is_behind_a_link(inside, ctx):
    lines = use("list_dir", inside, ctx).splitlines()
    assert "folder-link (a link, not followed)" in lines
    assert "sub/" in lines


def test_a_folder_that_becomes_a_link_between_the_look_and_the_write_leads_nowhere(inside, outside, ctx):
    with Workspace(inside).place("sub/a.txt") as place:
        os.rename(inside / "sub", inside / "moved")
        os.symlink(outside, inside / "sub")
        with ctx.atomic_write(place.name, dir_fd=place.folder) as file:
            file.write("written")
    assert (inside / "moved" / "a.txt").read_text() == "written"
    assert os.listdir(outside) == ["secret.txt"]


def test_a_file_that_becomes_a_link_between_the_look_and_the_write_is_not_followed(inside, outside, ctx):
    with Workspace(inside).place("sub/a.txt") as place, pytest.raises(UsageError, match="not a regular file"):
        os.unlink(inside / "sub" / "a.txt")
        os.symlink(outside / "secret.txt", inside / "sub" / "a.txt")
        with ctx.atomic_write(place.name, dir_fd=place.folder) as file:
            file.write("written")
    assert (outside / "secret.txt").read_text() == SECRET


def test_nobody_who_swaps_folders_and_links_all_the_time_gets_a_tool_outside(inside, outside, ctx):
    (outside / "a.txt").write_text(SECRET)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(inside / "sub", inside / "away")
            os.symlink(outside, inside / "sub")
            os.unlink(inside / "sub")
            os.rename(inside / "away", inside / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    answers, refused = set(), 0
    try:
        for _ in range(40):
            for name, arguments in (("read_file", {}), ("write_file", {"content": "inside"})):
                try:
                    answers.add(use(name, inside, ctx, path="sub/a.txt", **arguments))
                except (ToolError, FileNotFoundError):
                    refused += 1
            answers.add(use("search", inside, ctx, text=SECRET).split("\n")[0])
    finally:
        stop.set()
        swapping.join()
    assert answers <= {"inside", "wrote sub/a.txt: 1 lines", "nothing found"}
    assert refused, "the race never fell between"
    assert sorted(os.listdir(outside)) == ["a.txt", "secret.txt"]
    assert (outside / "a.txt").read_text() == SECRET


def test_pipes_and_devices_are_refused_and_not_waited_for(inside, ctx):
    os.mkfifo(inside / "pipe")
    for name in ("read_file", "write_file", "edit_file"):
        with pytest.raises(ToolError, match="regular file"):
            use(name, inside, ctx, path="pipe", **USES[name])
    assert use("search", inside, ctx, text="x").startswith("nothing found")


def test_the_tools_of_the_module_work_in_the_folder_that_the_process_is_in(inside, outside, ctx, monkeypatch):
    from loopctl.builtin import read_file

    monkeypatch.chdir(inside)
    assert read_file("sub/a.txt", ctx=ctx) == "inside"
    monkeypatch.chdir(outside)
    assert read_file("secret.txt", ctx=ctx) == SECRET


def test_a_workspace_that_is_no_folder_is_refused_at_once(inside):
    with pytest.raises(UsageError, match="is no folder"):
        builtin_tools(inside / "sub" / "a.txt")
    with pytest.raises(UsageError, match="no built-in tool 'rm': there are read_file, list_dir"):
        builtin_tools(inside, ["rm"])


def test_a_workspace_named_by_a_link_is_where_the_link_led_when_it_was_named(inside, outside, tmp_path, ctx):
    link = tmp_path / "link"
    link.symlink_to(inside)
    (tool,) = builtin_tools(link, ["read_file"])
    link.unlink()
    link.symlink_to(outside)
    assert tool("sub/a.txt", ctx=ctx) == "inside"


def test_what_changes_something_or_reaches_outside_needs_a_yes(inside):
    needing = [tool.name for tool in builtin_tools(inside) if tool.needs_approval({})]
    assert needing == ["write_file", "edit_file", "run_command", "fetch_url"]
    assert [tool.name for tool in builtin_tools(inside) if tool.read_only] == ["read_file", "list_dir", "search"]
