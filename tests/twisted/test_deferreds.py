"""Deferreds of pending calls, and of the one who hears a wakeup."""

from __future__ import annotations

from typing import Any

import pytest
from tolliver._driver.pending import PendingCall
from tolliver.twisted.wire import Wakeup, follow, wait_for
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from tolliver_proto import ConnectionClosing


class Promise(PendingCall[Any]):
    """A call without an answer yet; `wait` makes one of its Deferreds."""

    __slots__ = ("_clock",)

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> Deferred[Any]:
        return wait_for(self, self._clock, timeout)


def result_of(deferred: Deferred[Any]) -> Any:
    """Its value, or its error, which nobody needs to hear any more; None where it has not fired."""
    found: list[Any] = [None]
    deferred.addCallbacks(lambda value: found.append(value), lambda failure: found.append(failure.value))
    return found[-1]


def test_whoever_cancels_does_so_for_himself_alone() -> None:
    promise = Promise(Clock())
    first, second, third = promise.wait(), promise.wait(), promise.wait()
    second.cancel()
    assert isinstance(result_of(second), CancelledError)
    promise.resolve(7)
    assert [result_of(one) for one in (first, third, promise.wait())] == [7, 7, 7]


def test_whoever_changes_his_result_does_so_for_himself_alone() -> None:
    promise = Promise(Clock())
    first, second = promise.wait().addCallback(lambda value: value + 1), promise.wait()
    promise.resolve(7)
    assert (result_of(first), result_of(second)) == (8, 7)


def test_one_may_cancel_another_while_they_are_told() -> None:
    promise = Promise(Clock())
    first, second = promise.wait(), promise.wait()
    first.addCallback(lambda _: second.cancel())
    promise.resolve(7)
    assert isinstance(result_of(second), CancelledError)


def test_an_error_reaches_everybody() -> None:
    promise = Promise(Clock())
    early = promise.wait()
    error = ConnectionClosing("over")
    promise.fail(error)
    assert result_of(early) is result_of(promise.wait()) is error


def test_a_timeout_is_pythons_own_and_the_promise_stays() -> None:
    clock = Clock()
    promise = Promise(clock)
    patient, hasty = promise.wait(10), promise.wait(1)
    clock.advance(2)
    assert type(result_of(hasty)) is TimeoutError
    promise.resolve(7)
    assert result_of(patient) == 7
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_a_cancelled_wait_leaves_no_timer(timeout: float | None) -> None:
    clock = Clock()
    waiting = Promise(clock).wait(timeout)
    waiting.cancel()
    assert type(result_of(waiting)) is CancelledError
    assert clock.getDelayedCalls() == []


def test_a_promise_follows_a_deferred() -> None:
    source: Deferred[int] = Deferred()
    promise = Promise(Clock())
    follow(promise, source)
    waiting = promise.wait()
    promise.wait().addErrback(lambda _: None).cancel()
    source.callback(7)  # it was not cancelled
    assert result_of(waiting) == 7


# Bells.


def test_a_bell_is_heard_in_a_turn_of_its_own() -> None:
    """Or a handler would run in the middle of what the driver does."""
    clock = Clock()
    wakeup = Wakeup(clock)
    heard = wakeup.wait()
    wakeup.set()
    wakeup.set()
    told: list[None] = []
    heard.addCallback(told.append)
    assert told == []
    clock.advance(0)
    assert told == [None]
    assert not wakeup.wait().called, "two rings before it was heard are one"


def test_a_bell_that_rang_before_is_heard_at_once() -> None:
    wakeup = Wakeup(Clock())
    wakeup.set()
    assert wakeup.wait().called
    assert not wakeup.wait().called


def test_a_ring_whose_listener_left_is_for_the_next() -> None:
    clock = Clock()
    wakeup = Wakeup(clock)
    leaving = wakeup.wait()
    wakeup.set()
    leaving.cancel()
    assert isinstance(result_of(leaving), CancelledError)
    clock.advance(0)
    assert wakeup.wait().called
