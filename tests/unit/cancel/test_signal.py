"""What a signal and its token answer, without threads, loops or trees."""

from __future__ import annotations

import copy
import pickle

import pytest

from loopctl.cancel import CancelSignal, CancelToken
from loopctl.errors import Cancelled, UsageError
from loopctl.record import CancelReason, Urgency


def test_a_fresh_signal_is_not_cancelled():
    signal = CancelSignal()
    assert not signal.is_cancelled()
    assert not signal.token.is_cancelled()
    assert (signal.reason, signal.urgency) == (None, None)
    assert signal.wait(0) is False
    signal.raise_if_cancelled()


def test_a_cancelled_signal_says_so_and_why():
    signal = CancelSignal()
    assert signal.cancel("enough") is True
    for side in (signal, signal.token):
        assert side.is_cancelled() is True
        assert side.reason == CancelReason("user", "enough")
        assert side.urgency is Urgency.STOP
        assert side.wait() is True
        with pytest.raises(Cancelled) as caught:
            side.raise_if_cancelled()
        assert caught.value.reason is side.reason
        assert caught.value.checkpoint is None


def test_the_first_reason_stays():
    signal = CancelSignal()
    assert signal.cancel("first") is True
    assert signal.cancel("second") is False
    assert signal.reason == CancelReason("user", "first")


@pytest.mark.parametrize("origin", ["user", "deadline", "disconnect", "shutdown", "stall", "budget", "observer"])
def test_every_origin_arrives_unchanged_whatever_its_message_says(origin):
    """Case E6: nothing is decided by matching a text, so a message that sounds like another cause changes nothing."""
    reason = CancelReason(origin, "operation was aborted: timeout while draining", requested_by="ops")
    signal = CancelSignal()
    child = CancelSignal.any_of(signal, CancelSignal()).child()
    signal.cancel(reason)
    assert signal.reason is reason
    assert child.token.reason is reason
    with pytest.raises(Cancelled) as caught:
        child.raise_if_cancelled()
    assert caught.value.reason is reason


@pytest.mark.parametrize("reason", [3, object(), b"text", CancelSignal()])
def test_a_reason_of_another_type_is_refused_and_cancels_nothing(reason):
    signal = CancelSignal()
    with pytest.raises(UsageError, match="cancel reason"):
        signal.cancel(reason)
    assert not signal.is_cancelled()


def test_an_urgency_that_is_none_is_refused_and_cancels_nothing():
    signal = CancelSignal()
    with pytest.raises(UsageError, match=r"'now' is no urgency: use one of Urgency\.\{DRAIN, STOP, ABANDON\}"):
        signal.cancel(urgency="now")
    assert not signal.is_cancelled()
    with pytest.raises(UsageError, match="7 is no urgency"):
        signal.on_cancel(print, at_least=7)


@pytest.mark.parametrize("timeout", ["1", float("nan"), True, object()])
def test_a_timeout_that_is_no_number_is_named_and_refused(timeout):
    with pytest.raises(UsageError, match="timeout is a number of seconds"):
        CancelSignal().wait(timeout)


@pytest.mark.parametrize("timeout", [0, -3, -0.0, float("-inf")])
def test_a_timeout_of_zero_or_less_only_looks(timeout):
    signal = CancelSignal()
    assert signal.wait(timeout) is False
    signal.cancel()
    assert signal.wait(timeout) is True


def test_an_endless_timeout_is_no_overflow():
    signal = CancelSignal()
    signal.cancel_after(0.01)
    assert signal.wait(float("inf")) is True


def test_a_reset_swaps_a_fresh_token_in_for_a_fired_one():
    signal = CancelSignal()
    old = signal.token
    signal.cancel("once")
    assert signal.token is old
    signal.reset()
    assert signal.token is not old
    assert not signal.is_cancelled()
    assert signal.reason is None
    assert old.is_cancelled()
    assert old.reason == CancelReason("user", "once")
    assert signal.cancel("again") is True


def test_a_reset_leaves_an_unfired_token_where_it_is():
    signal = CancelSignal()
    token = signal.token
    signal.reset()
    assert signal.token is token


def test_resets_keep_no_old_tokens():
    signal = CancelSignal()
    for _ in range(100):
        signal.cancel()
        signal.reset()
    assert len(signal._tokens) == 1


def test_the_token_stays_the_same_object_and_can_cancel_nothing():
    signal = CancelSignal()
    assert signal.token is signal.token
    assert signal.token.token is signal.token
    assert isinstance(signal.token, CancelToken)
    assert not {"cancel", "cancel_after", "reset"} & set(dir(signal.token))


def test_what_the_token_keeps_is_the_firing_and_not_the_signal():
    signal = CancelSignal()
    token = signal.token
    signal.cancel()
    signal.reset()
    signal.cancel("new", urgency=Urgency.ABANDON)
    assert token.urgency is Urgency.STOP
    assert token.reason == CancelReason()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_because_it_would_be_told_of_nothing(copier):
    signal = CancelSignal()
    for thing in (signal, signal.token):
        with pytest.raises(TypeError, match="neither copied nor pickled: hand on the object itself"):
            copier(thing)


def test_the_repr_says_the_state_the_reason_and_the_audience():
    signal = CancelSignal()
    child = signal.child()
    signal.on_cancel(print, at_least=Urgency.ABANDON)
    assert repr(signal) == "<CancelSignal: not cancelled, 1 observers, 1 children>"
    signal.cancel("enough")
    assert repr(signal) == "<CancelSignal: STOP, user: enough, 1 observers, 1 children>"
    assert repr(child.token) == "<CancelToken: STOP, user: enough, 0 observers, 0 children>"


def test_a_registration_shows_what_it_would_run():
    registration = CancelSignal().on_cancel(print)
    assert repr(registration) == "<Callback of <built-in function print>>"
    registration.close()
    assert repr(registration) == "<Callback, spent>"
