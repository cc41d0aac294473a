"""What the file tools give and change, within which limits, and what they say when they cannot."""

import os
import stat

import pytest

from loopctl import Cancelled, CancelSignal, ToolContext, ToolError
from loopctl.builtin import builtin_tools


@pytest.fixture
def signal():
    return CancelSignal()


@pytest.fixture
def use(tmp_path, signal):
    tools = {tool.name: tool for tool in builtin_tools(tmp_path)}
    ctx = ToolContext("c1", "tool", signal.token)
    return lambda name, **arguments: tools[name].call(tools[name].bind(arguments), ctx)


def test_a_file_is_read_as_it_is(use, tmp_path):
    (tmp_path / "a.txt").write_bytes("zwei\r\nÄpfel\n".encode())
    assert use("read_file", path="a.txt") == "zwei\nÄpfel\n"


def test_a_part_of_a_file_says_how_to_go_on(use, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 6)))
    assert use("read_file", path="a.txt", first_line=2, lines=2) == (
        "2\n3\n[lines 2 to 3 of 5; go on with first_line=4]"
    )
    assert use("read_file", path="a.txt", first_line=4) == "4\n5\n"
    with pytest.raises(ToolError, match=r"a\.txt has 5 lines: there is no line 6"):
        use("read_file", path="a.txt", first_line=6)


def test_what_a_model_is_given_is_bounded(use, tmp_path):
    (tmp_path / "long.txt").write_text("x" * 70_000 + "\n" + "y\n" * 70_000)
    text = use("read_file", path="long.txt")
    assert len(text) < 51_000
    assert text.endswith("go on with first_line=2]")
    rest = use("read_file", path="long.txt", first_line=2)
    assert rest.endswith("[lines 2 to 2001 of 70001; go on with first_line=2002]")


@pytest.mark.parametrize(("content", "said"), [(b"a\0b", "not UTF-8 text"), (b"\xff\xfe", "not UTF-8 text")])
def test_what_is_no_text_is_refused(use, tmp_path, content, said):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(ToolError, match=said):
        use("read_file", path="a.bin")


def test_what_is_too_large_is_refused_before_it_is_read_whole(use, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolError, match="larger than 10,000,000 bytes"):
        use("read_file", path="huge")
    assert "1 left out" in use("search", text="x")


def test_an_empty_file_and_an_empty_folder_are_no_errors(use, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "empty").touch()
    assert use("read_file", path="empty") == ""
    assert use("list_dir", path="sub") == "[empty]"
    assert use("list_dir") == "empty  0 bytes\nsub/"


def test_a_long_list_is_cut_and_says_so(use, tmp_path):
    for number in range(1003):
        (tmp_path / f"{number:04}").touch()
    lines = use("list_dir").splitlines()
    assert (len(lines), lines[0]) == (1001, "0000  0 bytes")
    assert lines[-1].startswith("[… 3 more left out")


def test_a_search_gives_path_line_and_text(use, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\nTwo (three)\n")
    (tmp_path / "b.txt").write_text("two (three")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c.txt").write_text("two (three")
    assert use("search", text="wo (th") == "b.txt:1: two (three\nsrc/a.py:2: Two (three)\n[2 files searched]"
    assert use("search", text="TWO", ignore_case=True, files="*.py").splitlines()[0] == "src/a.py:2: Two (three)"
    assert use("search", text="wo", path="src").splitlines()[0] == "src/a.py:2: Two (three)"
    assert use("search", files="src/*") == "src/a.py"
    assert use("search", text="(a+)+$") == "nothing found\n[2 files searched]"


def test_a_search_stops_at_its_limit_and_says_so(use, tmp_path):
    (tmp_path / "a.txt").write_text("hit\n" * 500)
    lines = use("search", text="hit").splitlines()
    assert sum(line.startswith("a.txt:") for line in lines) == 200
    assert any("there may be more" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "a.txt"}),
        ("list_dir", {}),
        ("search", {"text": "x"}),
        ("write_file", {"path": "a.txt", "content": "new"}),
        ("edit_file", {"path": "a.txt", "old": "old", "new": "new"}),
    ],
)
def test_a_call_that_was_asked_to_stop_does_nothing_more(use, tmp_path, signal, name, arguments):
    (tmp_path / "a.txt").write_text("old")
    signal.cancel("enough")
    with pytest.raises(Cancelled):
        use(name, **arguments)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_write_makes_a_file_or_replaces_it_and_keeps_its_permissions(use, tmp_path):
    assert use("write_file", path="a.sh", content="one\ntwo\n") == "wrote a.sh: 2 lines"
    (tmp_path / "a.sh").chmod(0o750)
    use("write_file", path="a.sh", content="three")
    assert (tmp_path / "a.sh").read_text() == "three"
    assert stat.S_IMODE((tmp_path / "a.sh").stat().st_mode) == 0o750
    assert os.listdir(tmp_path) == ["a.sh"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no/such/a.txt", "there is no folder no in the workspace"),
        ("sub", "sub is a folder"),
        (".", "is a folder"),
        ("a.txt/b", "a.txt is a file, not a folder"),
        ("n" * 300, "cannot be written: File name too long"),
    ],
)
def test_what_cannot_be_written_says_why(use, tmp_path, path, said):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").touch()
    with pytest.raises(ToolError, match=said):
        use("write_file", path=path, content="x")


def test_an_edit_replaces_one_text_and_keeps_the_permissions(use, tmp_path):
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.py").chmod(0o700)
    assert use("edit_file", path="a.py", old="two\n", new="2\n2\n") == "edited a.py at line 2"
    assert (tmp_path / "a.py").read_text() == "one\n2\n2\nthree\n"
    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"\xef\xbb\xbfa\r\n", "a", "b", b"\xef\xbb\xbfb\r\n"),
        (b"a b", " b", "", b"a"),
    ],
)
def test_an_edit_keeps_the_line_ends_of_the_file(use, tmp_path, before, old, new, after):
    (tmp_path / "a.txt").write_bytes(before)
    use("edit_file", path="a.txt", old=old, new=new)
    assert (tmp_path / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "x", "old is empty"),
        ("x", "x", "old and new are the same"),
        ("no", "x", "the old text is not in a.txt. It must fit exactly"),
        ("one", "x", r"is 3 times in a.txt \(lines 1, 2, 4\), and must be there once: give more"),
    ],
)
def test_an_edit_that_cannot_be_says_what_to_do(use, tmp_path, old, new, said):
    (tmp_path / "a.txt").write_text("one\none\n\none\n")
    with pytest.raises(ToolError, match=said):
        use("edit_file", path="a.txt", old=old, new=new)
    assert (tmp_path / "a.txt").read_text() == "one\none\n\none\n"


@pytest.mark.parametrize(("old", "new"), [("two", "2"), ("two", "two and a half"), ("two", "one two")])
def test_an_edit_that_is_made_again_changes_nothing(use, tmp_path, old, new):
    (tmp_path / "a.txt").write_text("1, two, 3")
    use("edit_file", path="a.txt", old=old, new=new)
    assert "so already" in use("edit_file", path="a.txt", old=old, new=new)
    assert (tmp_path / "a.txt").read_text() == f"1, {new}, 3"


def test_half_a_character_is_refused(use, tmp_path):
    with pytest.raises(ToolError, match="half a character"):
        use("write_file", path="a.txt", content="\ud800")
    assert os.listdir(tmp_path) == []


def test_a_search_does_not_go_down_without_an_end(use, tmp_path):
    way = tmp_path
    for depth in range(60):
        way /= str(depth)
        way.mkdir()
        (way / "a.txt").write_text("here")
    assert use("search", text="here").splitlines()[-1] == "[41 files searched]"
