"""Bugs in what listeners are told.

The idea: news that is none, or that comes before it is true, misleads whoever acts on it; a slow listener is easily one
that loses something without a word.
"""

from __future__ import annotations

from .bug import Bug

STORING = "tolliver_proto/_node/storing.py"
SENDING = "tolliver_proto/_node/sending.py"
EVENTS = "transports/tolliver_transports/_driver/events.py"
DRIVER = "transports/tolliver_transports/_messages/driver.py"
LISTS = "tests/node/test_peer_lists.py::"
TOLD = "tests/adapters/test_events.py::"

BUGS = (
    Bug(
        "a list that is as before is told as another one",
        STORING,
        "Storing.committed",
        "self._tells_subscriptions and peer.subscriptions != before",
        "self._tells_subscriptions",
        (LISTS + "test_a_list_that_was_stored_is_told_no_more_than_its_changes",),
    ),
    Bug(
        "a held subscription counts as a subscriber",
        SENDING,
        "_subscribed",
        "not peer.holds(channel, key)",
        "True",
        (LISTS + "test_peers_that_are_away_count_and_held_subscriptions_do_not",),
    ),
    Bug(
        "a slow listener is not told that it missed something",
        EVENTS,
        "EventQueue.put",
        "self._missed += len(self._events) == KEPT",
        "pass",
        (TOLD + "test_a_slow_listener_keeps_the_newest_and_is_told_how_many_it_missed",),
    ),
    Bug(
        "an iterator goes on for ever when its instance is closed",
        EVENTS,
        "EventFeed.close",
        "self.leave(queue)",
        "pass",
        (TOLD + "test_each_listener_has_all_and_an_iterator_ends_with_its_instance[asyncio]",),
    ),
    Bug(
        "who waits for subscribers is asked once",
        DRIVER,
        "NodeDriver._on_subscriptions_changed",
        "self._look_at(wanted)",
        "pass",
        (TOLD + "test_who_waits_for_subscribers_goes_on_when_they_are_there[asyncio]",),
    ),
)
