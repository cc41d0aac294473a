"""The table of exit codes."""

from __future__ import annotations

import io
import os

import pytest

from loopctl.cli._exit import code_of, silence
from loopctl.record import CancelReason, Origin
from tests.unit.cli.records import SIGTERM, failed, run, stopped

CODES = {"deadline": 124, "shutdown": 143}


@pytest.mark.parametrize("origin", Origin.__args__)
def test_a_stopped_run_exits_by_its_first_cause(origin):
    assert code_of(stopped(CancelReason(origin))) == CODES.get(origin, 130)


def test_signals_exit_as_the_shell_expects():
    assert code_of(stopped()) == 130
    assert code_of(stopped(SIGTERM)) == 143


def test_the_other_endings():
    assert code_of(run("completed")) == 0
    assert code_of(run("max_turns")) == 1
    assert code_of(failed()) == 1


def test_a_silenced_stream_takes_everything_and_another_one_is_let_be():
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    stream.write("lost")
    silence(stream)
    stream.close()
    silence(io.StringIO())
