"""Responders: handlers whose results are sent back to the requester (P-10).

They are called like concurrent handlers, but a call's result is a reply. A slow request does not make a responder
stuck: it counts as stuck once all its places have been taken for too long (D-9).
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from tolliver_proto import Delivery, LocalProtocolError, NoticeKind, TolliverError
from tolliver_proto.errors import BodyNotDecoded
from tolliver_proto.node import Request, Requests

from .._driver.ends import is_interrupt, told
from .iterators import Receiver, name_of
from .mailbox import Handler, Mailbox, Policy, Timed

Responding = Callable[[Request], object]
"""A callback for a request that returns the reply's body (bytes). On a loop its result may be awaitable."""

CONCURRENCY = 64
_WORDS = 1000


class Responder(Receiver):
    """A registered responder. After `close()` requesters learn that there is none."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def close(self) -> None:
        """Stop answering. Requests in progress fail at their requester. A durable request waits for the next
        responder."""
        super().close()


def checked_responder(handler: Responding, concurrency: int) -> tuple[Handler, Policy]:
    """The responder as a handler of deliveries, and the policy of its mailbox, with at most `concurrency` requests in
    progress. Raises TypeError, ValueError.
    """
    if not callable(handler):
        raise TypeError(f"the handler {handler!r:.200} cannot be called: give a function of a request")
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency={concurrency!r:.100}: give a number of requests, 1 or more")
    policy = Policy(
        name_of(handler),
        places=concurrency,
        timed=Timed.FULL,
        ends_by_settling=False,
        register=_register,
        unregister=_unregister,
        judge=_as_it_is,
        returned=_returned,
        raised=_raised,
    )
    return lambda delivery: handler(Request(delivery)), policy


def _register(box: Mailbox) -> None:
    box.core.node.use(Requests).respond(box.channel, box.key, box, monotonic())


def _unregister(box: Mailbox, is_over: bool) -> None:
    """Unregister the responder. With `is_over` its subscription ends; it stays when only the instance closes:
    requesters find responders by subscriptions, and durable requests wait for the next run (P-16).
    """
    box.core.node.use(Requests).stop_responding(box.channel, box.key, box, monotonic(), is_over=is_over)
    box.core.run_actions()


def _as_it_is(_box: Mailbox, _delivery: Delivery, result: object) -> object:
    return result


def _returned(box: Mailbox, delivery: Delivery, result: Any) -> None:
    with box.core.lock:
        if box.closed:
            return
        try:
            is_settled = box.core.node.use(Requests).reply(delivery, result, monotonic())
        except LocalProtocolError as error:
            _raised(box, delivery, error)
        except TolliverError as error:  # no space for the stored reply of a durable request: it is redelivered
            text = f"has a reply that cannot be stored: {error}: not acknowledged"
            box.core.complain(NoticeKind.HANDLER_FAILED, delivery, text, None)
            box.settle((delivery,), None)
        else:
            box.settle((delivery,), True if is_settled else None)


def _raised(box: Mailbox, delivery: Delivery, error: BaseException) -> None:
    """Send `error` to the requester, which decides about asking again."""
    text = words_of(error)
    what = f"did not get it: {error}" if isinstance(error, BodyNotDecoded) else f"raised {told(error)}"
    with box.core.lock:
        if box.closed:
            return
        box.core.complain(NoticeKind.RESPONDER_FAILED, delivery, f"{what}: the requester is told", error)
        try:
            is_settled = box.core.node.use(Requests).refuse(delivery, text, monotonic())
        except TolliverError:
            is_settled = False
        box.settle((delivery,), True if is_settled else None)


def words_of(error: BaseException) -> str:
    """Text of an error, cut to 1000 characters; its type's name if it has none."""
    try:
        text = error.detail if isinstance(error, LocalProtocolError) else str(error)
    except BaseException as failure:
        if is_interrupt(failure):
            raise
        text = ""
    return f"{text:.{_WORDS}}" or type(error).__name__
