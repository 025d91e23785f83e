"""Bugs between the sockets and the machine: order, pauses, how a connection ends.

The idea: what all adapters share is broken in one place, and one of them must show it.
"""

from __future__ import annotations

from .bug import Bug

SESSION = "transports/tolliver/_driver/session.py"
TWISTED_WIRE = "transports/tolliver/twisted/wire.py"
ASYNCIO_WIRE = "transports/tolliver/anyio/asyncio_wire.py"
ANYIO_WIRE = "transports/tolliver/anyio/wire.py"
SOCKET_SESSION = "transports/tolliver/_driver/socket_session.py"
SOCKETS = "transports/tolliver/_driver/sockets.py"
LOOP = "transports/tolliver/blocking/loop.py"
TURNS = "tests/anyio/test_turns.py::"
BORROWING = "tests/blocking/test_borrowing.py::"

BUGS = (
    Bug(
        "units are joined",
        SESSION,
        "transmit",
        "self._units.extend(units)",
        'self._units.append(b"".join(units))',
        ("tests/adapters/test_hostile.py::test_a_response_is_a_record_of_its_own[asyncio]",),
    ),
    Bug(
        "nothing is read once our half is shut",
        SESSION,
        "written",
        "self.writing_over = True",
        """
        self.writing_over = True
        self.reading_over = True
        """,
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "our end does not wait for theirs",
        SESSION,
        "_next_unit",
        "self._pump.close_notify()",
        """
        self._pump.close_notify()
        self.reading_over = True
        """,
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "a cut is reported as an end",
        SESSION,
        "_hand_over",
        'self._end(ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))',
        """
        self._driver.machine.receive_eof(self.cid, time.monotonic())
        self.reading_over = True
        (ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))
        """,
        ("tests/adapters/test_hostile.py::test_a_line_that_is_cut_is_no_end_in_order[asyncio]",),
    ),
    Bug(
        "paused, and reads on",
        ANYIO_WIRE,
        "pause",
        """
        self.paused = True
        self._resumed = anyio.Event()
        """,
        "pass",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[trio]",),
    ),
    Bug(
        "paused, and the loop of asyncio calls on",
        ASYNCIO_WIRE,
        "pause",
        """
        self.paused = True
        self._look_soon()
        """,
        "pass",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[asyncio]",),
    ),
    Bug(
        "read again, and the loop of asyncio does not call",
        ASYNCIO_WIRE,
        "resume",
        "self._look_soon()",
        "pass",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[asyncio]",),
    ),
    Bug(
        "what the system did not take is never written on asyncio",
        ASYNCIO_WIRE,
        "_watch",
        "self._loop.add_writer(sock, self._on_writable)",
        "pass",
        ("tests/adapters/test_pressure.py",),
    ),
    Bug(
        "the reader waits for a write",
        SOCKET_SESSION,
        "read",
        "range(turns)",
        "range(0 if self.rest else turns)",
        (
            "tests/blocking/test_connection.py::test_two_that_both_write_much_do_not_wait_for_each_other",
            "tests/adapters/test_messages.py::test_messages_in_both_directions_at_once[asyncio]",
        ),
    ),
    Bug(
        "who has company is read as if alone",
        SOCKET_SESSION,
        "read",
        "self._driver.has_company",
        "False",
        ("tests/adapters/test_abuse.py::test_who_has_company_is_read_a_piece_at_a_time",),
    ),
    Bug(
        "a cut of a write is forgotten",
        SOCKET_SESSION,
        "write",
        "self.rest = self.rest[sock.send(self.rest) :]",
        """
        sock.send(self.rest)
        self.rest = memoryview(b"")
        """,
        ("tests/adapters/test_messages.py::test_the_largest_body_passes_and_a_larger_one_is_refused[asyncio]",),
    ),
    Bug(
        "twisted: a failed write hides the refusal",
        TWISTED_WIRE,
        "connectionLost",
        "self._hear_the_rest()",
        "",
        ("tests/twisted/test_sockets.py::test_a_failed_write_does_not_hide_the_refusal",),
    ),
    Bug(
        "twisted: closed in the middle of what led to it",
        TWISTED_WIRE,
        "write_soon",
        "self._clock.callLater(0, self.transport.loseConnection)",
        "self.transport.loseConnection()",
        ("tests/twisted/test_pressure.py::test_an_end_in_halves_that_the_peer_begins",),
    ),
    Bug(
        "twisted: closed while its producer is paused",
        TWISTED_WIRE,
        "write_soon",
        "self.transport.unregisterProducer()",
        "",
        ("tests/twisted/test_sockets.py::test_a_refusal_ends_a_client_that_waits_to_be_resumed",),
    ),
    Bug(
        "twisted: written to without end",
        TWISTED_WIRE,
        "pauseProducing",
        "self._full = True",
        "",
        ("tests/twisted/test_pressure.py::test_what_a_full_transport_cannot_take_stays_with_the_node",),
    ),
    Bug(
        "no keepalive",
        SOCKETS,
        "",
        """
        (
            ("IPPROTO_TCP", "TCP_NODELAY", 1),
            ("SOL_SOCKET", "SO_KEEPALIVE", 1),
            ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
            ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
            ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
            ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 30_000),
        )
        """,
        """
        (
            ("IPPROTO_TCP", "TCP_NODELAY", 1),
            ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
            ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
            ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
            ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 30_000),
        )
        """,
        ("tests/blocking/test_sockets.py::test_the_system_looks_after_a_peer_that_says_nothing",),
    ),
    Bug(
        "shared: a wakeup of trio wakes the last task that waits",
        ANYIO_WIRE,
        "wait",
        "self._event or anyio.Event()",
        "anyio.Event()",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-trio]",),
    ),
    Bug(
        "shared: a wakeup of asyncio wakes the last task that waits",
        ANYIO_WIRE,
        "wait",
        "self._listening.append(future)",
        "self._listening = [future]",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-asyncio]",),
    ),
    Bug(
        "shared: a wakeup of Twisted wakes the last that waits",
        TWISTED_WIRE,
        "wait",
        "self._listeners.append(Deferred(self._leave))",
        "self._listeners = [Deferred(self._leave)]",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-twisted]",),
    ),
    Bug(
        "uvloop calls again after an error of the line",
        ASYNCIO_WIRE,
        "__init__",
        "not isinstance(loop, asyncio.BaseEventLoop)",
        "False",
        (f"{TURNS}test_a_reset_with_the_last_bytes_is_seen_on_uvloop",),
    ),
    Bug(
        "the sockets stay with a borrower that is away",
        LOOP,
        "_stand_by",
        "not self._baton.locked()",
        "False",
        (f"{BORROWING}test_a_handler_that_had_the_sockets_may_block",),
    ),
)
