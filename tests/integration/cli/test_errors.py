"""What can go wrong, in the command: each is one line on stderr with its own words and exit code, and no traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from loopctl.cli._main import command
from tests.integration.cli.terminal import COMMAND, clean_environment
from tests.peers.openai_server import OpenAIServer, calls, error, html, not_json, text, truncated

TOOLS = {
    "raises_at_import.py": "raise RuntimeError('no database')\n",
    "leaves_at_import.py": "raise SystemExit(3)\n",
    "empty.py": "value = 1\n",
    "works.py": '''
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

def fail(path: str) -> str:
    """Fail."""
    raise OSError("the disk is full")
''',
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    for name, source in TOOLS.items():
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("loopctl.cli._exit.end_now", lambda code: None)  # the threads are those of the test's server
    yield
    for name in TOOLS:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture
def loopctl(capfd):
    """Run the command in this process; give its exit code, its stdout, and the lines of its stderr."""

    def run(*arguments):
        try:
            code = command(arguments)
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err.splitlines()

    return run


def ask(server, *more):
    return ("run", "--base-url", server.url, "--model", "m", *more, "hi")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--model", "nobody:m", "hi"), ["no provider answers", "nobody:m", "openai:"]),
        (("run", "--model", "gpt-5.2", "hi"), ["gpt-5.2", 'Did you mean "openai:gpt-5.2"?']),
        (("run", "--model", "anthropic:x", "hi"), ["anthropic", "not built yet"]),
        (("run", "--model", "openai:gpt-5.2", "hi"), ["needs an API key: set OPENAI_API_KEY"]),
        (("run", "--model", "local:/nowhere/m.gguf", "hi"), ["/nowhere/m.gguf"]),
        (("run", "--base-url", "http://127.0.0.1:1/v1", "hi"), ["--base-url needs --model"]),
        (("run", "--base-url", "http://127.0.0.1:1/v1", "--model", "local", "hi"), ["--base-url does not go with"]),
        (("run", "--base-url", "nonsense", "--model", "m", "hi"), ["nonsense"]),
        (("run", "--max-turns", "0", "hi"), ["'0' is not a whole number from 1 on", "loopctl run --help"]),
        (("run", "--json", "--events", "hi"), ["not allowed with"]),
        (("run",), ["INPUT", "- reads it from stdin"]),
        (("run", "--bogus", "hi"), ["--bogus", "See: loopctl run --help"]),
        (("run", "--model", "locl", "hi"), ["known are local,", 'Did you mean "local"?']),
        (("run", "--model", "opnai:m", "hi"), ['Did you mean "openai:m"?']),
        (("run", "--model", "", "hi"), ["--model is empty"]),
        (("run", "--model", "m", "  "), ["nothing to ask"]),
        ((), ["required"]),
        (("dance",), ["dance"]),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(loopctl, arguments, words):
    code, out, err = loopctl(*arguments)
    assert (code, out, len(err)) == (2, "", 1)
    assert err[0].startswith("loopctl: ")
    assert [word for word in words if word not in err[0]] == []


@pytest.mark.parametrize(
    ("redirection", "words"),
    [
        ("run --model local -- - <&-", "stdin is closed"),
        ("chat --model local <&-", "stdin is closed"),
        ("run --model local hi >&-", "stdout is closed"),
    ],
)
def test_a_closed_stream_is_one_line_and_2(redirection, words):
    done = shell(redirection)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"loopctl: {words}")


@pytest.mark.parametrize("shape", ["", "--json", "--events"])
def test_a_full_disk_is_one_line_and_1(shape):
    with OpenAIServer(text("fine.")) as server:
        done = shell(f"run --base-url {server.url} --model m {shape} hi > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "loopctl: stdout cannot be written: No space left on device\n"


def shell(line):
    return subprocess.run(
        ["/bin/sh", "-c", f"{shlex.join(COMMAND)} {line}"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere:f", ["no module", "nowhere"]),
        ("works", ["works", "module:function"]),
        ("works:subtract", ["works:subtract", "no"]),
        ("works:add,fail", ["'fail' does not name a tool", "works:add,works:fail"]),
        ("empty:value", ["empty:value", "int"]),
        ("raises_at_import:f", ["RuntimeError", "no database"]),
        ("leaves_at_import:f", ["leaves_at_import:f", "SystemExit(3)"]),
        ("works:add,works:add", ["add"]),
    ],
)
def test_tools_that_cannot_be_had_are_one_line_and_2(loopctl, spec, words):
    code, out, err = loopctl("run", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--tools", spec, "hi")
    assert (code, out, len(err)) == (2, "", 1)
    assert [word for word in words if word not in err[0]] == []


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (error(401, "Incorrect API key provided."), ["401", "Incorrect API key", "OPENAI_API_KEY"]),
        (error(429, "Slow down.", retry_after="90"), ["429", "Slow down", "wait 90 s"]),
        (error(500, "first\nsecond"), ["500", "first second"]),
        (not_json(), ["but what came is no", "upstream said hello"]),
        (html(), ["502", "Bad Gateway"]),
    ],
)
def test_what_a_server_does_wrong_is_one_line_and_1(loopctl, reply, words):
    with OpenAIServer(reply) as server:
        code, _, err = loopctl(*ask(server))
    assert (code, len(err)) == (1, 1)
    assert err[0].startswith("loopctl: openai:m at http://127.0.0.1:")
    assert [word for word in words if word not in err[0]] == []


def test_a_stream_that_breaks_is_tried_again_and_each_void_attempt_is_said(loopctl):
    with OpenAIServer(truncated(2)) as server:
        code, _, err = loopctl(*ask(server))
    assert (code, len(server.records)) == (0, 5), "four attempts, and the rescue, which is not streamed and so is whole"
    assert ["void" in line for line in err] == [True] * 4


def test_a_wrong_key_is_said(loopctl, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with OpenAIServer(api_key="right") as server:
        code, _, err = loopctl(*ask(server))
    assert (code, len(err)) == (1, 1)
    assert "401" in err[0]


def test_a_server_that_is_not_there_is_one_line_and_1(loopctl):
    code, out, err = loopctl("run", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "hi")
    assert (code, out, len(err)) == (1, "", 1)
    assert "nothing listens there" in err[0]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("subtract", {"a": 1}, ["✗ subtract(a=1) failed", "add, fail"]),
        ("add", {"a": 1}, ["✗ add(a=1) failed", "b"]),
        ("add", "not json", ["✗ add() failed", "not json"]),
        ("fail", {"path": "x"}, ['✗ fail(path="x") failed', "the disk is full"]),
    ],
)
def test_a_call_that_fails_is_told_and_the_run_goes_on(loopctl, name, arguments, words):
    with OpenAIServer([calls((name, arguments)), text("I see.")]) as server:
        code, out, err = loopctl(*ask(server, "--tools", "works:add,works:fail"))
    assert (code, out) == (0, "I see.\n")
    (finished,) = [line for line in err if line.startswith("✗")]
    assert [word for word in words if word not in finished] == []


@pytest.mark.parametrize(
    ("module", "extra", "model"), [("httpx2", "openai", "openai:m"), ("xllamacpp", "local", "local")]
)
def test_a_missing_extra_is_one_line_that_says_how_to_install_it(module, extra, model):
    program = f"import sys; sys.modules[{module!r}] = None; from loopctl.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--model", model, "hi"],
        capture_output=True,
        text=True,
        env=clean_environment(OPENAI_API_KEY="k"),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'loopctl-py[{extra}]'" in done.stderr


def test_the_traceback_is_there_for_who_asks():
    done = subprocess.run(
        [*COMMAND, "run", "--model", "nobody:m", "hi"],
        capture_output=True,
        text=True,
        env=clean_environment(LOOPCTL_DEBUG="1"),
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("loopctl: no provider answers")
