"""The command line, and that its page in the docs is what it prints."""

from __future__ import annotations

import re

import pytest

from loopctl.cli._arguments import parse, parsers
from loopctl.cli._options import CancelOptions, CheckOptions, EffectsOptions, Options, PsOptions, Resolution, Server
from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "reference" / "cli.md"


def with_help(page: str) -> str:
    """Give *page* with the help of each command in the first block after its heading."""
    for command, parser in parsers().items():
        block = re.compile(rf"(## `{command}`\n\n```text\n).*?(```\n)", re.DOTALL)
        assert block.search(page), f"no block for {command}"
        text = parser.format_help()
        page = block.sub(lambda found, text=text: found[1] + text + found[2], page)
    return page


def test_the_page_shows_what_help_prints():
    """To write it anew: python -m tests.unit.cli.test_arguments."""
    page = PAGE.read_text("utf-8")
    assert page == with_help(page)


@pytest.mark.parametrize("columns", ["40", "200"])
def test_help_looks_the_same_in_every_terminal(columns, monkeypatch):
    before = [parser.format_help() for parser in parsers().values()]
    monkeypatch.setenv("COLUMNS", columns)
    assert [parser.format_help() for parser in parsers().values()] == before


def test_no_line_of_the_help_is_wider_than_a_small_terminal():
    lines = [line for parser in parsers().values() for line in parser.format_help().splitlines()]
    assert [line for line in lines if len(line) > 90] == []


def test_every_option_becomes_data():
    line = "run --model m --base-url http://x/v1 --system s --tools a:b --max-turns 3 --deadline 2.5 --no-stream"
    assert parse([*line.split(), "--store", "s.db", "--events", "what?"]) == Options(
        command="run",
        model="m",
        base_url="http://x/v1",
        system="s",
        tools="a:b",
        max_turns=3,
        deadline=2.5,
        is_streaming=False,
        input="what?",
        output="events",
        store="s.db",
    )
    assert parse(["ps", "--json"]) == PsOptions(is_json=True)
    assert parse(["cancel", "--all"]) == CancelOptions((), is_all=True)
    server = Server("http://x", "t")
    assert parse(["ps", "--url", "http://x", "--token-file", "t"]) == PsOptions(server=server)
    assert parse(["cancel", "a", "--url", "http://x", "--token-file", "t"]) == CancelOptions(("a",), server=server)
    cancel = ["cancel", "a", "b", "--reason", "why", "--urgency", "drain", "--json"]
    assert parse(cancel) == CancelOptions(("a", "b"), reason="why", urgency="drain", is_json=True)
    effects = ["effects", "s.db"]
    assert parse(effects) == EffectsOptions("s.db")
    said = parse([*effects, "--done", "k", "--result", "[1]"]).resolution
    assert said == Resolution("k", is_done=True, result=[1])
    assert parse([*effects, "--not-done", "k"]).resolution == Resolution("k", is_done=False)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--done", "k", "--not-done", "k"], "not allowed with"),
        (["--result", "1"], "--result goes with --done"),
        (["--not-done", "k", "--result", "1"], "--result goes with --done"),
        (["--done", "k", "--result", "so"], "is not JSON: a text needs its own quotes"),
        ([], "FILE"),
    ],
)
def test_what_became_of_an_effect_is_said_in_one_way(more, words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["effects", *(["s.db"] if more else []), *more])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_every_option_of_a_check_becomes_data():
    line = "check m:f --files d --mode kill --grace 0 --ignore *.log --ignore *.tmp --may-repeat --limit 9 --json"
    assert parse([*line.split(), "--input", "{}"]) == CheckOptions(
        "m:f", "{}", "d", "kill", grace=0.0, ignore=("*.log", "*.tmp"), may_repeat=True, limit=9, is_json=True
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_a_deadline_is_a_time(seconds, capsys):
    with pytest.raises(SystemExit):
        parse(["run", "--deadline", seconds, "what?"])
    assert "more than 0" in capsys.readouterr().err


def test_nothing_has_to_be_named_for_a_chat():
    assert parse(["chat"]) == Options(command="chat")


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"loopctl \d+\.\d+\.\S+\n", capsys.readouterr().out)


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text("utf-8")), "utf-8")
