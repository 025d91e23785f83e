"""Bugs in requests and replies (P-10 to P-18)."""

from __future__ import annotations

from .bug import Bug

NODE = "tolliver_proto/_patterns/requests.py"
TABLE = "tolliver_proto/_patterns/open_requests.py"
RESPONDING = "transports/tolliver/_messages/responding.py"
IN_NODE = ("tests/patterns/test_requests.py",)
ON_ADAPTERS = "tests/adapters/test_requests.py::"

BUGS = (
    Bug(
        "who subscribes to everything is asked",
        "tolliver_proto/_node/subscriptions.py",
        "matching",
        "is_envelope(channel)",
        "False",
        IN_NODE,
    ),
    Bug(
        "the first request goes out before the subscription to replies",
        NODE,
        "_begin_request",
        "self._hears_replies",
        "True",
        IN_NODE,
    ),
    Bug(
        "a second answer ends a request once more",
        TABLE,
        "end",
        "del self.by_id[asked.request_id]",
        "pass",
        IN_NODE,
    ),
    Bug(
        "a cancelled request is outstanding until its timeout",
        "transports/tolliver/_driver/pending.py",
        "forget",
        "not self._waiters and self.abandoned is not None",
        "False",
        (ON_ADAPTERS + "test_a_request_that_its_caller_cancels_is_over",),
    ),
    Bug(
        "a cancelled request takes the one of the same number with it",
        "tolliver_proto/_patterns/requests.py",
        "_is_outstanding",
        "self._open.by_id.get(asked.request_id) is asked",
        "asked.request_id in self._open.by_id",
        IN_NODE,
    ),
    Bug(
        "anybody's reply is an answer",
        NODE,
        "_on_reply",
        "reply is None or asked is None or peer not in asked.left",
        "reply is None or asked is None",
        IN_NODE,
    ),
    Bug(
        "a failure ends a request that another may answer",
        NODE,
        "_on_reply",
        "asked.left and (asked.gathers or not asked.replies)",
        "asked.left and asked.gathers",
        IN_NODE,
    ),
    Bug(
        "ids begin at the same place at each opening",
        TABLE,
        "new_id",
        "request_id = int(self._rng.random() * _HALF) * _HALF + int(self._rng.random() * _HALF)",
        "request_id = 0",
        IN_NODE,
    ),
    Bug(
        "requests outlive the connection that was to answer them",
        NODE,
        "_on_asked_timeout",
        "peer.link is None",
        "False",
        IN_NODE,
    ),
    Bug(
        "a durable request is acknowledged before its reply is stored",
        NODE,
        "_keep_replied",
        "_key_of(one) in self._replied",
        "False",
        IN_NODE,
    ),
    Bug(
        "a reply is not held for its subscription",
        "tolliver_proto/_patterns/requests.py",
        "_hold_reply",
        "held.append((self._kernel.now + HELD_FOR, framed))",
        "pass",
        IN_NODE,
    ),
    Bug(
        "frames that wait for room are left",
        "tolliver_proto/_patterns/requests.py",
        "sent",
        "self._send_waiting(link)",
        "pass",
        IN_NODE,
    ),
    Bug(
        "one slow request of many is stuck",
        "transports/tolliver/_messages/inbox.py",
        "begin",
        "not self._places.has_place",
        "True",
        ("tests/adapters/test_handling.py::test_a_responder_is_stuck_where_each_of_its_places_is_taken[asyncio]",),
    ),
    Bug(
        "a closed responder stays subscribed",
        RESPONDING,
        "_unregister",
        "box.core.node.use(Requests).stop_responding(box.channel, box.key, box, monotonic(), is_over=is_over)",
        "box.core.node.use(Requests).stop_responding(box.channel, box.key, box, monotonic(), is_over=False)",
        (f"{ON_ADAPTERS}test_two_responders_of_one_instance[asyncio]",),
    ),
    Bug(
        "who had no handler once is never asked again",
        "tolliver_proto/_patterns/requests.py",
        "turn",
        "asked.not_there.difference_update(moved)",
        "pass",
        (IN_NODE[0] + "::test_where_nobody_whom_it_went_to_has_a_handler_it_waits_for_one_who_has",),
    ),
)
