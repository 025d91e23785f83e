"""Bugs in requests, last values and work queues."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "a second answer ends a request once more",
        "tolliver_proto/_patterns/open_requests.py",
        "end",
        "del self.by_id[asked.request_id]",
        "pass",
        ("tests/patterns/test_requests.py",),
    ),
    Bug(
        "anybody's reply is an answer",
        "tolliver_proto/_patterns/requests.py",
        "_on_reply",
        "reply is None or asked is None or peer not in asked.left",
        "reply is None or asked is None",
        ("tests/patterns/test_requests.py",),
    ),
    Bug(
        "a durable request is acknowledged before its reply is stored",
        "tolliver_proto/_patterns/requests.py",
        "_keep_replied",
        "_key_of(one) in self._replied",
        "False",
        ("tests/patterns/test_requests.py",),
    ),
    Bug(
        "an old value that waits is taken for the newest",
        "tolliver_proto/_patterns/value_copies.py",
        "is_queued",
        "seq >= self._changed_at.get(name, 0)",
        "bool(name)",
        ("tests/patterns/test_retained.py::test_a_newer_value_than_the_one_that_waits_is_given",),
    ),
    Bug(
        "a value is given while its change is being stored",
        "tolliver_proto/_patterns/value_index.py",
        "_go_on",
        "any(map(reading.wants, self._running))",
        "False",
        ("tests/patterns/test_retained.py::test_a_change_while_values_are_looked_up_counts_in_the_state_of_the_end",),
    ),
    Bug(
        "two lists of one peer at once",
        "tolliver_proto/_patterns/last_values.py",
        "before_list",
        "giving is not None",
        "False",
        ("tests/patterns/test_retained.py::test_one_list_of_a_peer_after_the_other",),
    ),
    Bug(
        "a lease never ends",
        "tolliver_proto/_patterns/queues.py",
        "_on_lease_timeout",
        "worker.lease_over = True",
        "pass",
        ("tests/patterns/test_queues.py",),
    ),
    Bug(
        "who does not work any more acknowledges jobs",
        "tolliver_proto/_patterns/work.py",
        "judges",
        "Fate.STUCK if is_unwanted and channel in self._worked else judgement",
        "judgement",
        ("tests/patterns/test_queues.py",),
    ),
)
