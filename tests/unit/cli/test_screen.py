"""What a terminal is sent, and what a pipe."""

from __future__ import annotations

import io

import pytest

from loopctl.cli._screen import Screen, cut, one_row, shorten


class Fake(io.StringIO):
    """A stream that may say that it is a terminal, with an encoding."""

    def __init__(self, *, is_terminal=True, encoding="utf-8"):
        super().__init__()
        self._is_terminal = is_terminal
        self._encoding = encoding

    encoding = property(lambda self: self._encoding)

    def isatty(self):
        return self._is_terminal


XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("environ", "is_terminal", "has_colors", "can_rewrite"),
    [
        (XTERM, True, True, True),
        (XTERM | {"NO_COLOR": "1"}, True, False, True),
        (XTERM | {"NO_COLOR": ""}, True, True, True),
        ({"TERM": "dumb"}, True, False, False),
        ({}, True, False, False),
        (XTERM, False, False, False),
    ],
)
def test_colours_and_rewriting_need_a_terminal_that_can(environ, is_terminal, has_colors, can_rewrite):
    screen = Screen(Fake(is_terminal=is_terminal), environ)
    assert (screen.has_colors, screen.can_rewrite) == (has_colors, can_rewrite)


def test_a_shown_line_is_erased_by_the_next_output_and_leaves_room_for_a_key(monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    stream = Fake()
    screen = Screen(stream, XTERM | {"NO_COLOR": "1"})
    screen.show("⋯ waiting for something")
    screen.write("text")
    assert stream.getvalue() == "⋯ waiti\r\x1b[Ktext"


def test_a_dumb_terminal_is_not_shown_lines_to_rewrite():
    stream = Fake()
    Screen(stream, {"TERM": "dumb"}).show("waiting")
    assert stream.getvalue() == ""


def test_a_line_begins_at_the_left():
    stream = Fake(is_terminal=False)
    screen = Screen(stream, {})
    screen.write("half a sent")
    screen.line("note")
    screen.write("whole\n")
    screen.line("note")
    screen.fresh()
    assert stream.getvalue() == "half a sent\nnote\nwhole\nnote\n"


def test_a_sentence_of_ours_is_broken_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "12")
    terminal, pipe = Fake(), Fake(is_terminal=False)
    Screen(terminal, XTERM | {"NO_COLOR": "1"}).tell("stopped by Ctrl-C in a tool")
    Screen(pipe, {}).tell("stopped by Ctrl-C in a tool")
    assert terminal.getvalue() == "stopped by\n  Ctrl-C in\n  a tool\n"
    assert pipe.getvalue() == "stopped by Ctrl-C in a tool\n"


def test_the_key_that_the_terminal_shows_does_not_stand_before_a_line_of_ours():
    stream = Fake()
    screen = Screen(stream, XTERM | {"NO_COLOR": "1"})
    screen.note_echo()
    screen.line("■ stopped")
    screen.line("next")
    assert stream.getvalue() == "\n■ stopped\nnext\n"


def test_a_mark_is_not_torn_at_the_edge(monkeypatch):
    monkeypatch.setenv("COLUMNS", "12")
    stream = Fake()
    screen = Screen(stream, XTERM | {"NO_COLOR": "1"})
    screen.write("one line\nfour")
    screen.note_echo()
    screen.mark(" … [stopped]")
    assert stream.getvalue() == "one line\nfour\n… [stopped]"


def test_what_a_tool_prints_has_its_own_lines_and_the_shown_line_comes_back():
    stream = Fake()
    screen = Screen(stream, XTERM | {"NO_COLOR": "1"})
    screen.write("Let me see.")
    screen.show("⋯ save()")
    for part in ("writing", "\n"):
        screen.beside(part, stream.write)
    screen.line("✓ save()")
    assert stream.getvalue() == "Let me see.\n⋯ save()\r\x1b[Kwriting\n⋯ save()\r\x1b[K✓ save()\n"


def test_control_characters_reach_no_terminal_and_every_pipe():
    harmful = "a\x1b[2Jb\x9bc\x07d\re\u202ef\tg\nh"
    terminal, pipe = Fake(), Fake(is_terminal=False)
    Screen(terminal, {"TERM": "dumb"}).write(harmful)
    Screen(pipe, {}).write(harmful)
    assert terminal.getvalue() == "a[2Jbcdef\tg\nh"
    assert pipe.getvalue() == harmful


def test_a_stream_without_unicode_gets_plain_signs():
    stream = Fake(encoding="ascii")
    Screen(stream, {"TERM": "dumb"}).line("■ stopped … · ✓")
    assert stream.getvalue() == "# stopped ... - +\n"


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [("日本語", 4, "日本"), ("日本語", 5, "日本"), ("e\u0301e", 1, "e\u0301"), ("abc", 3, "abc")],
)
def test_wide_and_combining_characters_are_counted_as_a_terminal_does(text, columns, shown):
    assert cut(text, columns) == shown


def test_a_row_is_cut_between_words():
    assert one_row("  1  stopped at noon", 20) == "  1  stopped at noon"
    assert one_row("  1  stopped at noon", 18) == "  1  stopped at …"


def test_shortened_text_is_one_line_and_says_that_it_goes_on():
    assert shorten("a\n  b", 9) == "a b"
    assert shorten("abcdef", 4) == "abc…"
