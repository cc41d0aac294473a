"""What tools do once, at the command line: the store of a run, and the command that resolves what is unknown."""

from __future__ import annotations

import re
import sqlite3

import pytest

from loopctl.cli._main import command
from loopctl.store import Ledger
from tests.peers.openai_server import OpenAIServer, calls, text

TOOL = '''
from loopctl import ToolContext

def pay(invoice: str, ctx: ToolContext) -> str:
    """Pay."""
    def charge():
        with open("paid.txt", "a") as file:
            file.write(invoice)
        if invoice == "18":
            raise TimeoutError("no answer")
        return "receipt of " + invoice
    return ctx.once("pay invoice " + invoice, charge)
'''


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    (tmp_path / "paying.py").write_text(TOOL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("loopctl.cli._exit.end_now", lambda code: None)  # the threads are those of the test's server


@pytest.fixture
def loopctl(capfd):
    """Run the command in this process; give its exit code, its stdout and its stderr."""

    def run(*arguments):
        code = command(arguments)
        return code, *capfd.readouterr()

    return run


def test_what_a_run_left_unknown_is_shown_and_resolved(loopctl, tmp_path):
    for invoice in ("17", "17", "18", "18"):
        with OpenAIServer([calls(("pay", {"invoice": invoice})), text("Done.")]) as server:
            line = ["run", "--base-url", server.url, "--model", "m", "--tools", "paying:pay", "--store", "s.db", "pay"]
            assert loopctl(*line)[0] == 0
    assert (tmp_path / "paid.txt").read_text() == "1718"

    code, out, _ = loopctl("effects", "s.db")
    assert code == 0
    assert re.fullmatch(r"'pay invoice 18'  begun 20\S+ \S+ by pay \(\S+\) in process \d+\n", out)

    assert loopctl("effects", "s.db", "--done", "pay invoice 18", "--result", '"by hand"') == (
        0,
        "",
        "'pay invoice 18' is done.\n",
    )
    assert loopctl("effects", "s.db") == (0, "", "Nothing is unknown.\n")
    assert Ledger("s.db").once("pay invoice 18", lambda: "again") == "by hand"


def time_out():
    raise TimeoutError


def test_what_has_not_happened_is_done_by_the_next_call(loopctl):
    with pytest.raises(TimeoutError):
        Ledger("s.db").once("key", time_out)
    assert loopctl("effects", "s.db", "--not-done", "key")[2] == "key is not done: the next call does it.\n"
    assert Ledger("s.db").once("key", lambda: "now") == "now"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.db"], 2, "there is no store 'missing.db': name the file"),
        (["other.db"], 1, "is a database of another program"),
        (["s.db", "--done", "never"], 2, "'never' was never begun"),
        (["s.db", "--not-done", "first"], 2, "'first' is done, with the result 1"),
    ],
)
def test_what_cannot_be_is_one_line_and_an_exit_code(loopctl, arguments, code, words):
    Ledger("s.db").once("first", lambda: 1)
    connection = sqlite3.connect("other.db")
    connection.execute("CREATE TABLE customers (name)")
    connection.close()
    found, out, err = loopctl("effects", *arguments)
    assert (found, out) == (code, "")
    assert err.startswith("loopctl: ")
    assert words in err
    assert err.count("\n") == 1
