"""A run with the two observers that ship: a stop is no error to them, wherever it comes."""

from __future__ import annotations

import logging

from opentelemetry.trace import StatusCode

from loopctl import Agent, RunConfig, Session
from loopctl.observers import LoggingObserver
from loopctl.testing import Scenario, Stopped, call, pause, say
from tests.conformance.scenarios.tools import PLAIN, THEN, telling
from tests.unit.observers.exported import Exported

__all__ = ["SCENARIOS"]

LINES: list[logging.LogRecord] = []
EXPORTED: list[Exported] = []


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        LINES.append(record)


_LOGGER = logging.getLogger("of the scenario observed")
_LOGGER.setLevel(logging.DEBUG)
_LOGGER.propagate = False
_LOGGER.addHandler(_Lines())


def observed() -> Session:
    LINES.clear()
    EXPORTED[:] = [Exported()]
    model = telling([say("a"), call("note", {"name": "1"}), call("clean", {"name": "2"})], [say("b"), pause(1)])
    watching = [LoggingObserver(_LOGGER), EXPORTED[0].observer]
    return Agent(model, PLAIN, observers=watching, config=RunConfig(grace=3)).session()


def a_stop_is_no_error(stopped: Stopped) -> None:
    """Check that there is no ERROR line, no error.type, no span with the status ERROR, and that every span is ended."""
    assert [line.getMessage() for line in LINES if line.levelno >= logging.WARNING] == []
    (out,) = EXPORTED
    assert out.all_ended
    for span in out.spans:
        assert "error.type" not in (span.attributes or {}), span.name
        assert span.status.status_code is not StatusCode.ERROR, span.name
    for name in ("gen_ai.client.operation.duration", "gen_ai.execute_tool.duration"):
        labels = out.labels(name)
        assert not any("error.type" in each for each in labels)


SCENARIOS = (Scenario(observed, then=THEN, check=a_stop_is_no_error),)
