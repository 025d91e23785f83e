"""Bugs in how a program opens, closes, copies and shows an instance."""

from __future__ import annotations

from .bug import Bug

OPENING = "transports/tolliver/_messages/opening.py"
ENDPOINT = "transports/tolliver/_driver/endpoint.py"
FACADE = "transports/tolliver/_driver/facade.py"
INSTANCE = "transports/tolliver/_messages/instance.py"
CLI_WORDS = "transports/tolliver/_cli/words.py"
ANYIO_THREADS = "transports/tolliver/anyio/threads.py"
ANYIO_ENDPOINT = "transports/tolliver/anyio/endpoint.py"
TWISTED_ENDPOINT = "transports/tolliver/twisted/endpoint.py"
BLOCKING_ENDPOINT = "transports/tolliver/blocking/endpoint.py"
THREADS = "transports/tolliver/_driver/threads.py"

BUGS = (
    Bug(
        "a database of somebody else is used",
        OPENING,
        "open_instance",
        "(wanted is not None and known != wanted) or not mine.may_be(known)",
        "False",
        ("tests/adapters/test_instance.py::test_who_it_is_must_not_be_contradicted[asyncio]",),
    ),
    Bug(
        "an option against the certificate",
        OPENING,
        "open_instance",
        "wanted is not None and not mine.may_be(wanted)",
        "False",
        ("tests/adapters/test_instance.py::test_who_it_is_must_not_be_contradicted[asyncio]",),
    ),
    Bug(
        "an instance is copied",
        FACADE,
        "__reduce__",
        "self._core.refuse_copy()",
        "return super().__reduce__()",
        ("tests/blocking/test_threads.py::test_an_instance_is_not_pickled_or_copied",),
    ),
    Bug(
        "a fork of an instance goes on",
        ENDPOINT,
        "check_open",
        "self._process == _this_process",
        "True",
        ("tests/adapters/test_instance.py::test_a_forked_child_is_told_to_open_its_own[asyncio]",),
    ),
    Bug(
        "a renewed certificate of somebody else",
        INSTANCE,
        "_read_tls",
        "not pumps.identity.may_be(self.node.instance_id)",
        "False",
        ("tests/adapters/test_renewal.py::test_a_renewed_certificate_is_shown_from_now_on[asyncio]",),
    ),
    Bug(
        "a terminal is written to by a peer",
        CLI_WORDS,
        "_escaped",
        '"".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)',
        "text",
        ("tests/cli/test_words.py",),
    ),
    Bug(
        "opening: asyncio leaves a thread that a cancelled task began",
        ANYIO_THREADS,
        "off_loop",
        "not outcome.cancel() and not outcome.done()",
        "False",
        ("tests/anyio/test_opening.py::test_a_task_that_is_cancelled_leaves_nothing_locked",),
    ),
    Bug(
        "opening: asyncio leaves it at the second cancel",
        ANYIO_THREADS,
        "_end_of",
        "with suppress(asyncio.CancelledError): await ended.wait()",
        "await ended.wait()",
        ("tests/anyio/test_opening.py::test_a_task_that_is_cancelled_leaves_nothing_locked",),
    ),
    Bug(
        "without a thread the database stays open",
        ANYIO_ENDPOINT,
        "_close_files",
        "self._finish()",
        "pass",
        ("tests/adapters/test_instance.py::test_without_threads_it_says_so_and_leaves_nothing[asyncio]",),
    ),
    Bug(
        "opening: a cancelled one stays open on Twisted",
        TWISTED_ENDPOINT,
        "open",
        "self.wait(closed).addBoth(lambda _: failure)",
        "failure",
        ("tests/twisted/test_instance.py::test_it_fires_when_what_it_opened_is_closed",),
    ),
    Bug(
        "opening: a reactor that stops does not wait for it",
        TWISTED_ENDPOINT,
        "_on_shutdown",
        "return self._close_when_open()",
        "return succeed(None)",
        ("tests/twisted/test_instance.py::test_a_reactor_that_stops_waits_for_an_opening_and_closes_it",),
    ),
    Bug(
        "opening: an exception leaves it on threads",
        BLOCKING_ENDPOINT,
        "open",
        "self._stop()",
        "pass",
        ("tests/blocking/test_opening.py::test_an_exception_on_any_line_leaves_nothing_open",),
    ),
    Bug(
        "opening: what is open is opened again",
        ENDPOINT,
        "_claim",
        "self._claimed = True",
        "pass",
        ("tests/blocking/test_opening.py::test_what_is_open_is_not_opened_again_and_goes_on",),
    ),
    Bug(
        "a thread that cannot be had is a RuntimeError",
        THREADS,
        "starting_thread",
        "RuntimeError",
        "ZeroDivisionError",
        ("tests/blocking/test_threads.py::test_without_a_thread_an_instance_is_not_opened_and_leaves_nothing",),
    ),
    Bug(
        "a Ctrl-C that the program catches cuts a step in two",
        "transports/tolliver/blocking/interrupts.py",
        "_on_interrupt",
        "_is_busy()",
        "False",
        ("tests/blocking/test_interrupts.py::test_ctrl_c_in_a_step_waits_for_its_end_and_the_instance_goes_on",),
    ),
)
