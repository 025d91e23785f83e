"""Bugs between the sockets and the node: TLS, access, how a connection ends, handlers.

The idea: what all adapters share is broken in one place, and one of them must show it.
"""

from __future__ import annotations

from .bug import Bug

TLS = "transports/tolliver_transports/_tls/pump.py"
POLICY = "transports/tolliver_transports/_tls/policy.py"
X509 = "transports/tolliver_transports/_tls/x509.py"
OPTIONS = "transports/tolliver_transports/_options/instance.py"
ACL_FILE = "transports/tolliver_transports/_options/acl_file.py"
SESSION = "transports/tolliver_transports/_driver/session.py"
TWISTED_WIRE = "transports/tolliver_transports/twisted/wire.py"
ASYNCIO_WIRE = "transports/tolliver_transports/anyio/asyncio_wire.py"
ANYIO_WIRE = "transports/tolliver_transports/anyio/wire.py"
SOCKET_SESSION = "transports/tolliver_transports/_driver/socket_session.py"
SOCKETS = "transports/tolliver_transports/_driver/sockets.py"
TURNS = "tests/anyio/test_turns.py::"
INBOX = "transports/tolliver_transports/_messages/inbox.py"
ITERATORS = "transports/tolliver_transports/_messages/iterators.py"
THREAD_ITERATORS = "transports/tolliver_transports/blocking/iterators.py"
ENDS = "transports/tolliver_transports/anyio/ends.py"
ASYNC_STREAMS = "transports/tolliver_transports/_streams/async_streams.py"
OPENING = "transports/tolliver_transports/_messages/opening.py"
ENDPOINT = "transports/tolliver_transports/_driver/endpoint.py"
FACADE = "transports/tolliver_transports/_driver/facade.py"
INSTANCE = "transports/tolliver_transports/_messages/instance.py"
CLI_WORDS = "transports/tolliver_transports/_cli/words.py"
ANYIO_THREADS = "transports/tolliver_transports/anyio/threads.py"
ANYIO_ENDPOINT = "transports/tolliver_transports/anyio/endpoint.py"
TWISTED_ENDPOINT = "transports/tolliver_transports/twisted/endpoint.py"
BLOCKING_ENDPOINT = "transports/tolliver_transports/blocking/endpoint.py"
THREADS = "transports/tolliver_transports/_driver/threads.py"
PUBLISHING = "transports/tolliver_transports/_streams/publishing.py"
SUBSCRIBING = "transports/tolliver_transports/_streams/subscribing.py"
STREAMS = "transports/tolliver_transports/_streams/streams.py"
CODECS = "transports/tolliver_transports/_streams/codecs.py"
WAITS = "transports/tolliver_transports/blocking/waits.py"
RELAYS = "tests/adapters/test_streams_relay.py::test_rule"

BUGS = (
    Bug(
        "tls: no certificate is asked for",
        POLICY,
        "_context",
        "ssl.CERT_REQUIRED",
        "ssl.CERT_OPTIONAL",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: any host name will do",
        POLICY,
        "client_context",
        "check_hostname and not tls.insecure_ca_only",
        "False",
        ("tests/tls/test_handshake.py::test_host_names_are_checked_unless_it_is_spelt_out",),
    ),
    Bug(
        "tls: the system's authorities are trusted",
        POLICY,
        "_load",
        "_trust(context, tls.ca)",
        """
        _trust(context, tls.ca)
        context.load_default_certs()
        """,
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: 1.2 without being asked",
        POLICY,
        "_context",
        "ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3",
        "ssl.TLSVersion.TLSv1_2",
        ("tests/tls/test_handshake.py::test_only_tls_1_3_by_default",),
    ),
    Bug(
        "tls: sessions are resumed",
        POLICY,
        "server_context",
        "context.num_tickets = 0",
        "",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: what nobody reads any more is kept",
        TLS,
        "Pump.receive",
        "self._no_more or self._closed_by_peer or self._failure",
        "self._no_more or self._closed_by_peer",
        ("tests/tls/test_handshake.py::test_what_nobody_reads_any_more_is_not_kept",),
    ),
    Bug(
        "tls: a pin is not looked at",
        TLS,
        "Pump._check_peer",
        "check_pin(self._remote, identity)",
        "pass",
        ("tests/tls/test_handshake.py::test_another_than_the_pinned_peer",),
    ),
    Bug(
        "tls: a pinned peer needs no CA",
        POLICY,
        "Pumps.__init__",
        "self.identity = _met_by_itself(tls, self._by_pin, self._server)",
        """
        self._by_pin.verify_mode = ssl.CERT_NONE
        self.identity = _met_by_itself(tls, self._by_pin, self._server)
        """,
        ("tests/tls/test_handshake.py::test_an_instance_needs_nothing_but_its_options",),
    ),
    Bug(
        "tls: the pin is the certificate's, not the key's",
        X509,
        "identity_of",
        "subject_public_key_info(der)",
        "der",
        ("tests/tls/test_certs.py::test_own_identity_is_what_others_see",),
    ),
    Bug(
        "tls: a cut is taken for an orderly end",
        TLS,
        "Pump._pull",
        "self._cut_off = True",
        "self._closed_by_peer = True",
        ("tests/tls/test_stream.py::test_an_end_without_close_notify_is_told_apart",),
    ),
    Bug(
        "tls: our end drops what has come",
        TLS,
        "Pump.close_notify",
        """
        self._pull()
        if self._identity is None or self._write_closed or self._failure is not None or self._cut_off:
            return
        """,
        """
        if self._identity is None or self._write_closed or self._failure is not None or self._cut_off:
            return
        """,
        ("tests/tls/test_stream.py::test_close_with_their_data_in_flight",),
    ),
    Bug(
        "tls: the end before the data",
        TLS,
        "Pump.peer_closed",
        "self._closed_by_peer and not self._read_ahead",
        "self._closed_by_peer",
        ("tests/tls/test_stream.py::test_the_end_is_not_told_before_the_data",),
    ),
    Bug(
        "tls: a refusal is taken for a lost line",
        X509,
        "Breakdown.explain",
        "refusal is not None and not self.heard",
        "False",
        ("tests/tls/test_handshake.py::test_refused_certificate",),
    ),
    Bug(
        "tls: a garbled UUID counts as none",
        X509,
        "_uuid",
        """
        if match is None:
            raise ValueError(f"{urn!r} is no UUID")
        return UUID(match[1])
        """,
        "return UUID(match[1]) if match else UUID(int=1)",
        ("tests/tls/test_handshake.py::test_a_garbled_uuid_is_refused",),
    ),
    Bug(
        "plaintext leaves this machine",
        OPTIONS,
        "EndpointOptions._require_loopback",
        "self.plaintext and not _is_loopback(host)",
        "False",
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "any name is this machine",
        OPTIONS,
        "_is_loopback",
        'host == "localhost"',
        'host.startswith("localhost")',
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "access file: deny allows",
        ACL_FILE,
        "",
        "Rights.none",
        "Rights",
        ("tests/tls/test_acl_file.py::test_a_whole_file",),
    ),
    Bug(
        "access file: an unknown entry is passed over",
        ACL_FILE,
        "_check_names",
        "table.keys() - {*known}",
        "table.keys() & set()",
        ("tests/tls/test_acl_file.py::test_mistakes",),
    ),
    Bug(
        "units are joined",
        SESSION,
        "Session.transmit",
        "self._units.extend(units)",
        'self._units.append(b"".join(units))',
        ("tests/adapters/test_hostile.py::test_a_response_is_a_record_of_its_own[asyncio]",),
    ),
    Bug(
        "nothing is read once our half is shut",
        SESSION,
        "Session.written",
        "self._writing_over = True",
        """
        self._writing_over = True
        self._reading_over = True
        """,
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "our end does not wait for theirs",
        SESSION,
        "Session._next_unit",
        "self._pump.close_notify()",
        """
        self._pump.close_notify()
        self._reading_over = True
        """,
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "a cut is reported as an end",
        SESSION,
        "Session._hand_over",
        'self._end(ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))',
        """
        self._driver.machine.receive_eof(self.cid, time.monotonic())
        self._reading_over = True
        (ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))
        """,
        ("tests/adapters/test_hostile.py::test_a_line_that_is_cut_is_no_end_in_order[asyncio]",),
    ),
    Bug(
        "paused, and reads on",
        ANYIO_WIRE,
        "TaskTransport.pause",
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
        "CallbackTransport.pause",
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
        "CallbackTransport.resume",
        "self._look_soon()",
        "pass",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[asyncio]",),
    ),
    Bug(
        "what the system did not take is never written on asyncio",
        ASYNCIO_WIRE,
        "CallbackTransport._watch",
        "self._loop.add_writer(sock, self._on_writable)",
        "pass",
        ("tests/adapters/test_pressure.py",),
    ),
    Bug(
        "the reader waits for a write",
        SOCKET_SESSION,
        "SocketSession.read",
        "range(TURNS)",
        "range(0 if self.rest else TURNS)",
        (
            "tests/blocking/test_connection.py::test_two_that_both_write_much_do_not_wait_for_each_other",
            "tests/adapters/test_messages.py::test_messages_in_both_directions_at_once[asyncio]",
        ),
    ),
    Bug(
        "a cut of a write is forgotten",
        SOCKET_SESSION,
        "SocketSession.write",
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
        "Transport.connectionLost",
        "self._hear_the_rest()",
        "",
        ("tests/twisted/test_sockets.py::test_a_failed_write_does_not_hide_the_refusal",),
    ),
    Bug(
        "twisted: closed in the middle of what led to it",
        TWISTED_WIRE,
        "Transport.write_soon",
        "self._clock.callLater(0, self.transport.loseConnection)",
        "self.transport.loseConnection()",
        ("tests/twisted/test_pressure.py::test_an_end_in_halves_that_the_peer_begins",),
    ),
    Bug(
        "twisted: closed while its producer is paused",
        TWISTED_WIRE,
        "Transport.write_soon",
        "self.transport.unregisterProducer()",
        "",
        ("tests/twisted/test_sockets.py::test_a_refusal_ends_a_client_that_waits_to_be_resumed",),
    ),
    Bug(
        "twisted: written to without end",
        TWISTED_WIRE,
        "Transport.pauseProducing",
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
        "one handler is enough",
        INBOX,
        "Votes._is_last",
        "self._waiting[delivery] == 0",
        "True",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "a handler that failed is outvoted",
        INBOX,
        "Votes._is_last",
        "(self._let_go if well is None else self._failed).add(delivery)",
        "pass",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "several handlers share what each of them settles",
        INBOX,
        "Votes.ballot",
        "[Delivery(one.cid, one.peer_id, one.message, one.attempt) for one in self._deliveries]",
        "self._deliveries",
        ("tests/adapters/test_handlers.py::test_a_handler_that_settles_twice_has_one_vote[asyncio-messages]",),
    ),
    Bug(
        "a run settles a delivery twice",
        INBOX,
        "Run._take_open",
        """
        fresh = [one for one in deliveries if one in self._open]
        for one in fresh:
            del self._open[one]
        """,
        """
        fresh = list(deliveries)
        for one in fresh:
            self._open.pop(one, None)
        """,
        ("tests/adapters/test_handlers.py::test_a_handler_that_settles_twice_has_one_vote[asyncio-message_runs]",),
    ),
    Bug(
        "False is as good as True",
        INBOX,
        "Verdicts.returned",
        "bool(result)",
        "True",
        ("tests/adapters/test_handlers.py::test_a_failed_message_comes_again_until_it_is_handled",),
    ),
    Bug(
        "leaving an iterator acknowledges",
        INBOX,
        "Mailbox.close",
        "run.fail()",
        "run.ack()",
        ("tests/adapters/test_handlers.py::test_leaving_an_iterator_fails_what_it_holds[asyncio]",),
    ),
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
        "BaseFacade.__reduce__",
        "self._core.refuse_copy()",
        "return super().__reduce__()",
        ("tests/blocking/test_threads.py::test_an_instance_is_not_pickled_or_copied",),
    ),
    Bug(
        "a fork of an instance goes on",
        ENDPOINT,
        "BaseEndpoint.check_open",
        "self._open and self._process != os.getpid()",
        "False",
        ("tests/adapters/test_instance.py::test_a_forked_child_is_told_to_open_its_own[asyncio]",),
    ),
    Bug(
        "a renewed certificate of somebody else",
        INSTANCE,
        "BaseInstanceCore._read_tls",
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
        "streams: a source is pulled without demand",
        PUBLISHING,
        "OutboundStream.look",
        "min(self._owner.hub.wanted(*self.key), self._step)",
        "self._step",
        (
            "tests/adapters/test_streams_data.py::test_a_reader_that_stops_stops_the_source",
            "tests/adapters/test_streams_publisher.py::test_rule",
        ),
    ),
    Bug(
        "streams: a source is not closed",
        PUBLISHING,
        "OutboundStream.cancelled",
        "self.bell.ring()",
        "",
        ("tests/adapters/test_streams_publisher.py::test_rule",),
    ),
    Bug(
        "relays: a subscription outlives the streams that it feeds",
        SUBSCRIBING,
        "BaseSubscription._detach_outbound",
        "self._core.abandon(Closing(self.cancel))",
        "",
        (f"{RELAYS}[2.6-a_cancel_ends_a_subscription_that_is_a_source-asyncio-plain]",),
    ),
    Bug(
        "relays: the first subscriber that leaves cancels for all",
        SUBSCRIBING,
        "BaseSubscription._detach_outbound",
        "not self._stream.outbound",
        "True",
        (f"{RELAYS}[4.1-a_subscription_is_cancelled_with_the_last_of_its_streams-asyncio-plain]",),
    ),
    Bug(
        "relays: the end is told to one of several streams",
        SUBSCRIBING,
        "BaseSubscription._attach_outbound",
        "stream.outbound.add(outbound)",
        "stream.outbound = {outbound}",
        (f"{RELAYS}[4.2-all_streams_of_a_subscription_hear_its_end-asyncio-plain]",),
    ),
    Bug(
        "relays: a subscription that was opened too late stays open",
        PUBLISHING,
        "OutboundStream.begin",
        "self._let_go()",
        "",
        (
            "tests/blocking/test_streams_ends.py::test_a_subscription_that_is_opened_after_the_end_of_its_stream_is_cancelled",
        ),
    ),
    Bug(
        "relays: a source is opened for who has left",
        ASYNC_STREAMS,
        "AsyncOutboundStream._work",
        "if self.over: return",
        "",
        ("tests/adapters/test_relays.py::test_a_source_is_not_opened_for_who_has_left[asyncio]",),
    ),
    Bug(
        "relays: a thread's wait outlives its stream",
        WAITS,
        "Work.end",
        "wake()",
        "",
        ("tests/blocking/test_streams_ends.py::test_a_source_over_messages_ends_with_its_stream",),
    ),
    Bug(
        "shared: a bell wakes the last task that listens",
        ANYIO_WIRE,
        "Bell.heard",
        "self._event or anyio.Event()",
        "anyio.Event()",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-asyncio]",),
    ),
    Bug(
        "shared: a bell of Twisted wakes the last that listens",
        TWISTED_WIRE,
        "Bell.heard",
        "self._listeners.append(Deferred(self._leave))",
        "self._listeners = [Deferred(self._leave)]",
        ("tests/adapters/test_shared.py::test_elements_of_a_stream[True-twisted]",),
    ),
    Bug(
        "streams: a codec that raises StopIteration ends the source",
        PUBLISHING,
        "OutboundStream.add_many",
        "converted(encode, elements)",
        "map(encode, elements)",
        ("tests/adapters/test_odd_ends.py::test_a_source_ends_its_own_stream_and_no_other[plain-asyncio]",),
    ),
    Bug(
        "streams: a codec that raises StopAsyncIteration ends the loop",
        CODECS,
        "converted",
        "raise RuntimeError(f'the codec raised {type(error).__name__}') from error",
        "raise",
        ("tests/adapters/test_odd_ends.py::test_a_subscriber_ends_its_own_stream_and_no_other[asyncio]",),
    ),
    Bug(
        "streams: a window is never filled up",
        SUBSCRIBING,
        "InboundStream._grant",
        "self._window and not self.closed and outstanding <= self._window // 2",
        "False",
        ("tests/adapters/test_streams_data.py::test_many_streams_on_one_connection",),
    ),
    Bug(
        "streams: access rules are not asked",
        STREAMS,
        "BaseStreamsCore._on_subscribe",
        'peer is None or not self._rights(peer.identity).may_subscribe(Subscription(name, ""))',
        "peer is None",
        ("tests/adapters/test_streams_life.py::test_over_tls",),
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
        "Endpoint._close_files",
        "self._finish()",
        "pass",
        ("tests/adapters/test_instance.py::test_without_threads_it_says_so_and_leaves_nothing[asyncio]",),
    ),
    Bug(
        "opening: a cancelled one stays open on Twisted",
        TWISTED_ENDPOINT,
        "Endpoint.open",
        "self.wait(closed).addBoth(lambda _: failure)",
        "failure",
        ("tests/twisted/test_instance.py::test_it_fires_when_what_it_opened_is_closed",),
    ),
    Bug(
        "opening: a reactor that stops does not wait for it",
        TWISTED_ENDPOINT,
        "Endpoint._on_shutdown",
        "return self._close_when_open()",
        "return succeed(None)",
        ("tests/twisted/test_instance.py::test_a_reactor_that_stops_waits_for_an_opening_and_closes_it",),
    ),
    Bug(
        "opening: an exception leaves it on threads",
        BLOCKING_ENDPOINT,
        "Endpoint.open",
        "self._stop()",
        "pass",
        ("tests/blocking/test_opening.py::test_an_exception_on_any_line_leaves_nothing_open",),
    ),
    Bug(
        "opening: what is open is opened again",
        ENDPOINT,
        "BaseEndpoint._claim",
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
        "only an Exception is a failure of a handler",
        ITERATORS,
        "_HandlerCalls._call_each",
        "is_interrupt(error)",
        "is_interrupt(error) or not isinstance(error, Exception)",
        ("tests/adapters/test_odd_ends.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "only an Exception is a failure of a handler that is awaited",
        ITERATORS,
        "_HandlerCalls._wait_for",
        "self._core.is_outside(error)",
        "self._core.is_outside(error) or not isinstance(error, Exception)",
        ("tests/adapters/test_odd_ends.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a handler has the loop until nothing waits",
        ITERATORS,
        "_HandlerCalls._call_each",
        "monotonic() > until",
        "False",
        (f"{TURNS}test_a_handler_that_takes_its_time_lets_the_others_have_their_turn",),
    ),
    Bug(
        "a handler is called in the context of the loop",
        ITERATORS,
        "_HandlerCalls.call",
        "self._context.run(self._call_each, until)",
        "self._call_each(until)",
        (f"{TURNS}test_a_plain_handler_is_called_in_the_context_of_its_registration",),
    ),
    Bug(
        "uvloop calls again after an error of the line",
        ASYNCIO_WIRE,
        "CallbackTransport.__init__",
        "not isinstance(loop, asyncio.BaseEventLoop)",
        "False",
        (f"{TURNS}test_a_reset_with_the_last_bytes_is_seen_on_uvloop",),
    ),
    Bug(
        "a thread's interrupt is a failure of its handler",
        THREAD_ITERATORS,
        "Registration._call",
        "is_interrupt(error)",
        "False",
        ("tests/adapters/test_odd_ends.py::test_an_interrupt_ends_the_program[threads]",),
    ),
    Bug(
        "a result must have a truth",
        INBOX,
        "Verdicts.returned",
        "is_interrupt(error)",
        "True",
        ("tests/adapters/test_odd_ends.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a cancelled task that a handler awaits cancels us",
        ENDS,
        "_is_cancelled",
        "kind is not asyncio.CancelledError",
        "True",
        ("tests/adapters/test_odd_ends.py::test_each_is_a_failed_attempt_and_the_next_message_is_handled",),
    ),
    Bug(
        "a source that ends oddly ends the program",
        ASYNC_STREAMS,
        "AsyncOutboundStream._work",
        "self._loop.is_outside(error)",
        "not isinstance(error, Exception)",
        ("tests/adapters/test_odd_ends.py::test_a_source_ends_its_own_stream_and_no_other",),
    ),
)
