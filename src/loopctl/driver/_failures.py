"""What a failure on the model's side is called: one `LoopError`, and one fact for the brain.

Rules: a cancel never comes here; what the application set up wrongly is told apart from what a model did wrong, and so
is what a middleware did: neither is tried again, and no model is to blame for it; the type of a foreign error decides
only whether the same request may succeed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from loopctl.brain import ModelFailed, Moment
from loopctl.concurrency import Ending, Patience, describe
from loopctl.errors import Cancelled, FallbackExhausted, LoopError, MiddlewareError, ModelError, UsageError
from loopctl.middleware import Passage
from loopctl.model import Model
from loopctl.recovery import FailureKind, classify

__all__ = ["check", "check_layers", "exhausted", "fact_of", "is_rate_limit", "truncated", "wrapped"]


def check(ending: Ending, model: Model, patience: Patience, what: str = "request") -> None:
    """Raise what the model's side failed with, as a `LoopError`.

    Args:
        ending: How *what* ended.
        model: Whose it was.
        patience: The limits that it had.
        what: Its name, for the error.

    Raises:
        LoopError: It failed.
        BaseException: It raised something that ends the program.
    """
    if ending.stopped_by == "timeout":
        raise ModelError(f"{model.name}: {patience.expired}. The {what} was dropped", retryable=True)
    if ending.how == "returned":
        return
    error = ending.error
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    # An error that has a run is the end of that one: of an earlier run of this model, or of one inside of it.
    if isinstance(error, LoopError) and not isinstance(error, Cancelled) and error.run is None:
        raise error
    if error is not None:
        raise wrapped(error, model) from error
    raise ModelError(f"{model.name} was not asked")


def check_layers(ending: Ending, model: Model, patience: Patience, passage: Passage) -> None:
    """Raise what a middleware around the request failed with; what the model failed with is `check`'s.

    A `ModelError` that a middleware raises is what it says of the model, so it is left to `check` too.

    Raises:
        MiddlewareError: It failed, said no by raising, or spent the time of the request.
    """
    error, whose = ending.error, f"around {model.name}"
    if ending.stopped_by == "timeout":
        if passage.pressed is not None:
            raise MiddlewareError(f"the middleware {passage.pressed} {whose} waited: {patience.expired}")
        return
    culprit = passage.culprit(error)
    is_said_of_model = isinstance(error, ModelError) and error.run is None
    if culprit is not None and not is_said_of_model and not isinstance(error, KeyboardInterrupt | SystemExit):
        raise MiddlewareError(f"the middleware {culprit} {whose} failed: {describe(error)}") from error


def wrapped(error: BaseException, model: Model) -> ModelError:
    """Give the `ModelError` that stands for *error*."""
    if isinstance(error, asyncio.CancelledError):
        why = "it raised CancelledError, and nobody had stopped the run"
        return ModelError(f"{model.name} was cancelled from inside: {why}")
    text = f"{model.name} failed: {describe(error)}"
    if isinstance(error, ModelError):
        return ModelError(text, status=error.status, retryable=error.retryable, retry_after=error.retry_after)
    return ModelError(text, retryable=isinstance(error, ConnectionError | TimeoutError))


def is_rate_limit(error: LoopError | None) -> bool:
    """True if a server asked for less by *error*."""
    if not isinstance(error, ModelError):
        return False
    return classify(error.status, retryable=error.retryable).kind is FailureKind.RATE_LIMIT


def truncated(model: Model, passage: Passage | None) -> ModelError:
    """Give the error of a reply that stopped before its end."""
    if passage is not None and passage.has_ended:
        return ModelError(
            f"{model.name} ended its reply, but a middleware did not pass the end mark (ReplyEnd) on. Give it too",
            retryable=True,
        )
    return ModelError(
        f"{model.name} ended its reply without an end mark: it is truncated. Ask again; if it goes on, look at"
        " the server or the proxy before it",
        retryable=True,
    )


def fact_of(error: LoopError, moment: Moment, *, can_rescue: bool) -> ModelFailed:
    """Give *error* as the brain is told of it."""
    if isinstance(error, ModelError):
        return ModelFailed(str(error), error.status, error.retryable, error.retry_after, can_rescue, moment=moment)
    return ModelFailed(str(error), is_misuse=isinstance(error, UsageError | MiddlewareError), moment=moment)


def exhausted(models: Sequence[Model], given_up: Mapping[int, LoopError], last: LoopError) -> FallbackExhausted:
    """Give the error of a chain that is spent.

    Args:
        models: The chain.
        given_up: What each model that was asked failed with, by its place in the chain.
        last: What the last one failed with: the cause.
    """
    skipped = [model.name for index, model in enumerate(models) if index not in given_up]
    text = f"every model failed: {'; then '.join(map(str, given_up.values()))}"
    if skipped:
        text += f". Not asked, since they failed in the turns before: {', '.join(skipped)}"
    failure = FallbackExhausted(
        text,
        status=getattr(last, "status", None),
        retryable=any(getattr(error, "retryable", False) for error in given_up.values()),
        retry_after=getattr(last, "retry_after", None),
    )
    failure.__cause__ = last
    return failure
