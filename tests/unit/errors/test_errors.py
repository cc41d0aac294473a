"""The exception tree: its shape, its texts, and that nothing gets lost on the way."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest

from loopctl import errors
from loopctl.errors import (
    Cancelled,
    EffectUnknown,
    FallbackExhausted,
    IllegalTransition,
    LoopError,
    MaxTurnsExceeded,
    MiddlewareError,
    MissingExtra,
    ModelError,
    SessionBusy,
    SessionClosed,
    StoreError,
    ToolError,
    UnknownModel,
    UsageError,
)
from loopctl.record import CancelReason, Checkpoint

PARENTS = {
    UsageError: LoopError,
    SessionBusy: UsageError,
    SessionClosed: UsageError,
    UnknownModel: UsageError,
    MissingExtra: UsageError,
    IllegalTransition: UsageError,
    Cancelled: LoopError,
    MaxTurnsExceeded: LoopError,
    ModelError: LoopError,
    FallbackExhausted: ModelError,
    MiddlewareError: LoopError,
    ToolError: LoopError,
    EffectUnknown: LoopError,
    StoreError: LoopError,
}


def test_the_tree_is_the_one_that_is_drawn():
    assert {kind: kind.__base__ for kind in PARENTS} == PARENTS
    assert {getattr(errors, name) for name in errors.__all__} == {LoopError, *PARENTS}
    for kind in PARENTS:
        assert f" {kind.__name__}" in errors.__doc__


def test_an_error_without_a_run_says_so():
    assert all(kind.run is None for kind in PARENTS)


def test_a_stop_is_never_taken_for_the_cancellation_of_a_task():
    assert not issubclass(Cancelled, asyncio.CancelledError)
    assert not issubclass(asyncio.CancelledError, LoopError)
    assert issubclass(Cancelled, Exception)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Cancelled(CancelReason("user", "stop"), Checkpoint.STREAM_EVENT), "cancelled at STREAM_EVENT: user: stop"),
        (Cancelled(CancelReason("deadline", "10 s", "ann")), "cancelled: deadline: 10 s (by ann)"),
        (ModelError("openai:gpt-5.2 answered 503", status=503), "openai:gpt-5.2 answered 503"),
        (
            MissingExtra.of("The provider openai", "openai"),
            "The provider openai needs an extra that is not installed. Run: pip install 'loopctl-py[openai]'",
        ),
    ],
)
def test_the_text_says_what_happened_and_what_to_do(error, text):
    assert str(error) == text


def test_a_missing_extra_is_one_for_its_subclasses_too():
    assert type(MissingExtra.of("x", "cli")) is MissingExtra


def test_a_model_error_that_says_nothing_is_not_worth_another_try():
    error = ModelError("no")

    assert (error.status, error.retryable, error.retry_after) == (None, False, None)


@pytest.mark.parametrize("through", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_survive_copying_and_pickling(through):
    stop = through(Cancelled(CancelReason("stall", "x"), Checkpoint.TOOL_CALL))
    failure = through(FallbackExhausted("all", status=429, retryable=True, retry_after=1.5))

    assert (stop.reason, stop.checkpoint) == (CancelReason("stall", "x"), Checkpoint.TOOL_CALL)
    assert stop.args == (stop.reason, stop.checkpoint)
    assert type(failure) is FallbackExhausted
    assert str(failure) == "all"
    assert (failure.status, failure.retryable, failure.retry_after) == (429, True, 1.5)
