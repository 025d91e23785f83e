"""Bugs in what listeners are told.

The idea: news that is none, or that comes before it is true, misleads whoever acts on it; a slow listener is easily one
that loses something without a word.
"""

from __future__ import annotations

from .bug import Bug

REMOTES = "tolliver_proto/_node/links/remotes.py"
CONTEXT = "tolliver_proto/_node/context.py"
EVENTS = "transports/tolliver/_driver/events.py"
DRIVER = "transports/tolliver/_messages/driver.py"
TALLY = "tolliver_proto/_node/notices.py"
CERTIFICATES = "tolliver_proto/_common/certificate_watch.py"
FAILURES = "tolliver_proto/_common/dial_failures.py"
HUB = "tolliver_proto/reactive/_hub.py"
STREAMS = "transports/tolliver/_streams/streams.py"
THROTTLED = "tests/node/test_throttled.py::"
SILENCE = "tests/node/links/test_silence.py::"
DIALS = "tests/reactive/test_hub_dials.py::"
SEEN = "tests/adapters/test_seen.py::"
CAUSES = "tests/adapters/test_dial_causes.py::"
LISTS = "tests/node/lists/test_peer_lists.py::"
TOLD = "tests/adapters/test_events.py::"

BUGS = (
    Bug(
        "a list that is as before is told as another one",
        "tolliver_proto/_node/lists/peers.py",
        "on_stored",
        "self._context.tells_events and peer.lists.subscriptions != before",
        "self._context.tells_events",
        (LISTS + "test_a_list_that_was_stored_is_told_no_more_than_its_changes",),
    ),
    Bug(
        "a held subscription counts as a subscriber",
        "tolliver_proto/_node/outboxes/routing.py",
        "count_subscribed",
        "not peer.lists.holds(channel, key)",
        "True",
        (LISTS + "test_peers_that_are_away_count_and_held_subscriptions_do_not",),
    ),
    Bug(
        "a slow listener is not told that it missed something",
        EVENTS,
        "put",
        "self._missed += len(self._events) == KEPT",
        "pass",
        (TOLD + "test_a_slow_listener_keeps_the_newest_and_is_told_how_many_it_missed",),
    ),
    Bug(
        "an iterator goes on for ever when its instance is closed",
        EVENTS,
        "close",
        "self.leave(queue)",
        "pass",
        (TOLD + "test_each_listener_has_all_and_an_iterator_ends_with_its_instance[asyncio]",),
    ),
    Bug(
        "who waits for subscribers is asked once",
        "transports/tolliver/_messages/waits.py",
        "look_again",
        "self.settle(condition, found)",
        "pass",
        (TOLD + "test_who_waits_for_subscribers_goes_on_when_they_are_there[asyncio]",),
    ),
    Bug(
        "a notice that repeats is told each time",
        CONTEXT,
        "notice",
        "kind not in THROTTLED or self.tally.is_first(kind, peer, detail, self.now)",
        "True",
        (THROTTLED + "test_the_first_is_told_at_once_and_then_the_sum",),
    ),
    Bug(
        "a notice that is told in a sum is counted twice",
        CONTEXT,
        "tell_sum",
        "kind not in THROTTLED",
        "True",
        (THROTTLED + "test_the_first_is_told_at_once_and_then_the_sum",),
    ),
    Bug(
        "each UUID that is claimed takes memory",
        TALLY,
        "_place",
        "peer in known or len(known) < PEERS_KNOWN",
        "True",
        (THROTTLED + "test_who_claims_ever_new_uuids_takes_a_bounded_share_of_memory",),
    ),
    Bug(
        "what is counted within a minute begins another minute",
        TALLY,
        "_is_first",
        "known[place] = known[place][0] + count, text",
        "known[place] = count, text",
        (THROTTLED + "test_nothing_is_lost_and_nothing_is_told_twice_within_a_minute",),
    ),
    Bug(
        "the end of a certificate is an event that nobody asked for",
        REMOTES,
        "_on_certificate_timeout",
        "self._context.tells_events",
        "True",
        (SILENCE + "test_the_end_of_our_certificate_is_an_event_where_events_are_asked_for",),
    ),
    Bug(
        "a peer's certificate is told whenever it connects",
        CERTIFICATES,
        "watch",
        "owner is None or self._timers.due(('certificate', owner)) is None",
        "True",
        (SILENCE + "test_the_end_of_a_peers_certificate_is_told_daily_while_it_is_connected",),
    ),
    Bug(
        "the certificate of a peer that is gone is told for ever",
        REMOTES,
        "_on_certificate_timeout",
        "peer is not None and not self._links.is_live(peer)",
        "False",
        (SILENCE + "test_the_certificate_of_a_peer_that_is_gone_is_forgotten",),
    ),
    Bug(
        "streams: our own protocol is taken for the cause",
        FAILURES,
        "_cause_of",
        "None if seen is own else seen",
        "seen",
        (DIALS + "test_what_answers_is_known_by_its_first_bytes",),
    ),
    Bug(
        "streams: a peer that was up is a dial that failed",
        HUB,
        "_tell",
        "None if link.up else failure_of(link.error, link.first, DialCause.STREAMS)",
        "failure_of(link.error, link.first, DialCause.STREAMS)",
        (DIALS + "test_a_peer_that_was_up_is_no_dial_that_failed",),
    ),
    Bug(
        "streams: a dial that is given up does not say what was missing",
        HUB,
        "give_up",
        "failure is not None",
        "False",
        (DIALS + "test_a_dial_that_is_given_up_says_what_was_missing",),
    ),
    Bug(
        "streams: what connect raises lacks the cause",
        STREAMS,
        "_on_peer_down",
        "error = _explained(error, action.failure)",
        "pass",
        (CAUSES + "test_the_cause_is_seen_on_streams[asyncio]",),
    ),
    Bug(
        "streams: nobody hears that our certificate ends",
        STREAMS,
        "_prepare",
        "self._watch_certificate()",
        "pass",
        (SEEN + "test_streams_tell_the_end_of_their_certificate[asyncio]",),
    ),
    Bug(
        "a peer's certificate is not looked at",
        DRIVER,
        "_on_peer_up",
        "identity.not_after is not None",
        "False",
        (SEEN + "test_the_end_of_a_certificate_is_an_event_for_both_ends_of_a_connection[asyncio]",),
    ),
    Bug(
        "each failure of a handler is a notice of its own",
        TALLY,
        "",
        "THROTTLED = frozenset({NoticeKind.ACCESS_DENIED, NoticeKind.CERTIFICATE_REFUSED, NoticeKind.DUPLICATE_CLOSED, "
        "NoticeKind.HANDLER_FAILED, NoticeKind.IDENTITY_MISMATCH, NoticeKind.PROTOCOL_ERROR, "
        "NoticeKind.RESPONDER_FAILED, NoticeKind.SELF_CONNECTION})",
        "THROTTLED = frozenset({NoticeKind.ACCESS_DENIED, NoticeKind.CERTIFICATE_REFUSED, NoticeKind.DUPLICATE_CLOSED, "
        "NoticeKind.IDENTITY_MISMATCH, NoticeKind.PROTOCOL_ERROR, NoticeKind.RESPONDER_FAILED, "
        "NoticeKind.SELF_CONNECTION})",
        ("tests/adapters/test_handlers.py::test_a_failed_message_comes_again_until_it_is_handled[asyncio-raises]",),
    ),
)
