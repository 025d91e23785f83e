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
ANYIO_WIRES = "transports/tolliver_transports/anyio/wire.py"
SOCKET_SESSION = "transports/tolliver_transports/_driver/socket_session.py"
SOCKETS = "transports/tolliver_transports/_driver/sockets.py"
INBOX = "transports/tolliver_transports/_messages/inbox.py"
OPENING = "transports/tolliver_transports/_messages/opening.py"
ENDPOINT = "transports/tolliver_transports/_driver/endpoint.py"
INSTANCE = "transports/tolliver_transports/_messages/instance.py"
CLI_WORDS = "transports/tolliver_transports/_cli/words.py"
PUBLISHING = "transports/tolliver_transports/_streams/publishing.py"
SUBSCRIBING = "transports/tolliver_transports/_streams/subscribing.py"
STREAMS = "transports/tolliver_transports/_streams/streams.py"

BUGS = (
    Bug(
        "tls: no certificate is asked for",
        POLICY,
        "context.verify_mode = ssl.CERT_REQUIRED",
        "context.verify_mode = ssl.CERT_OPTIONAL",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: any host name will do",
        POLICY,
        "context.check_hostname = check_hostname and not tls.insecure_ca_only",
        "context.check_hostname = False",
        ("tests/tls/test_handshake.py::test_host_names_are_checked_unless_it_is_spelt_out",),
    ),
    Bug(
        "tls: the system's authorities are trusted",
        POLICY,
        "    _trust(context, tls.ca)\n",
        "    _trust(context, tls.ca)\n    context.load_default_certs()\n",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: 1.2 without being asked",
        POLICY,
        "ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3",
        "ssl.TLSVersion.TLSv1_2",
        ("tests/tls/test_handshake.py::test_only_tls_1_3_by_default",),
    ),
    Bug(
        "tls: sessions are resumed",
        POLICY,
        "    context.num_tickets = 0\n",
        "",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: a pin is not looked at",
        TLS,
        "            check_pin(self._remote, identity)\n",
        "            pass\n",
        ("tests/tls/test_handshake.py::test_another_than_the_pinned_peer",),
    ),
    Bug(
        "tls: a pinned peer needs no CA",
        POLICY,
        "self._by_pin = client_context(tls, check_hostname=False, alpn=alpn)",
        "self._by_pin = client_context(tls, check_hostname=False, alpn=alpn)\n"
        "            self._by_pin.verify_mode = ssl.CERT_NONE",
        ("tests/tls/test_handshake.py::test_an_instance_needs_nothing_but_its_options",),
    ),
    Bug(
        "tls: the pin is the certificate's, not the key's",
        X509,
        "hashlib.sha256(subject_public_key_info(der)).digest()",
        "hashlib.sha256(der).digest()",
        ("tests/tls/test_certs.py::test_own_identity_is_what_others_see",),
    ),
    Bug(
        "tls: a cut is taken for an orderly end",
        TLS,
        "                self._cut_off = True\n",
        "                self._closed_by_peer = True\n",
        ("tests/tls/test_stream.py::test_an_end_without_close_notify_is_told_apart",),
    ),
    Bug(
        "tls: our end drops what has come",
        TLS,
        "        self._pull()\n        if self._identity is None or self._write_closed or",
        "        if self._identity is None or self._write_closed or",
        ("tests/tls/test_stream.py::test_close_with_their_data_in_flight",),
    ),
    Bug(
        "tls: the end before the data",
        TLS,
        "return self._closed_by_peer and not self._read_ahead",
        "return self._closed_by_peer",
        ("tests/tls/test_stream.py::test_the_end_is_not_told_before_the_data",),
    ),
    Bug(
        "tls: a refusal is taken for a lost line",
        X509,
        "        if refusal is not None and not self.heard:\n",
        "        if False:\n",
        ("tests/tls/test_handshake.py::test_refused_certificate",),
    ),
    Bug(
        "tls: a garbled UUID counts as none",
        X509,
        '    if match is None:\n        raise ValueError(f"{urn!r} is no UUID")\n    return UUID(match[1])\n',
        "    return UUID(match[1]) if match else UUID(int=1)\n",
        ("tests/tls/test_handshake.py::test_a_garbled_uuid_is_refused",),
    ),
    Bug(
        "plaintext leaves this machine",
        OPTIONS,
        "        if self.plaintext and not _is_loopback(host):\n",
        "        if False:\n",
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "any name is this machine",
        OPTIONS,
        '        return host == "localhost"\n',
        '        return host.startswith("localhost")\n',
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "access file: deny allows",
        ACL_FILE,
        '"deny": Rights.none()}',
        '"deny": Rights()}',
        ("tests/tls/test_acl_file.py::test_a_whole_file",),
    ),
    Bug(
        "access file: an unknown entry is passed over",
        ACL_FILE,
        "    for name in table.keys() - {*known}:\n",
        "    for name in table.keys() & set():\n",
        ("tests/tls/test_acl_file.py::test_mistakes",),
    ),
    Bug(
        "units are joined",
        SESSION,
        "        self._units.extend(units)\n",
        '        self._units.append(b"".join(units))\n',
        ("tests/adapters/test_hostile.py::test_a_response_is_a_record_of_its_own[asyncio]",),
    ),
    Bug(
        "nothing is read once our half is shut",
        SESSION,
        '        """Our half is shut, or a write failed."""\n        self._writing_over = True\n',
        '        """Our half is shut, or a write failed."""\n'
        "        self._writing_over = True\n"
        "        self._reading_over = True\n",
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "our end does not wait for theirs",
        SESSION,
        "            self._shut = True\n            self._pump.close_notify()\n",
        "            self._shut = True\n            self._pump.close_notify()\n            self._reading_over = True\n",
        ("tests/adapters/test_pressure.py::test_an_acknowledgement_that_comes_while_it_closes_counts[asyncio]",),
    ),
    Bug(
        "a cut is reported as an end",
        SESSION,
        '            self._end(ConnectionLost("the peer ended the connection without',
        "            self._driver.machine.receive_eof(self.cid, time.monotonic())\n"
        "            self._reading_over = True\n"
        '            (ConnectionLost("the peer ended the connection without',
        ("tests/adapters/test_hostile.py::test_a_line_that_is_cut_is_no_end_in_order[asyncio]",),
    ),
    Bug(
        "paused, and reads on",
        ANYIO_WIRES,
        "        self.paused = True\n        self._resumed = anyio.Event()\n",
        "        pass\n",
        ("tests/adapters/test_pressure.py::test_a_slow_handler_stops_the_reading_and_gets_everything_later[asyncio]",),
    ),
    Bug(
        "the reader waits for a write",
        SOCKET_SESSION,
        "            goes_on = self._read(sock)\n",
        "            goes_on = not self.rest and self._read(sock)\n",
        ("tests/adapters/test_messages.py::test_messages_in_both_directions_at_once[asyncio]",),
    ),
    Bug(
        "a cut of a write is forgotten",
        SOCKET_SESSION,
        "self.rest = self.rest[sock.send(self.rest) :]",
        'sock.send(self.rest)\n                self.rest = memoryview(b"")',
        ("tests/adapters/test_messages.py::test_the_largest_body_passes_and_a_larger_one_is_refused[asyncio]",),
    ),
    Bug(
        "no keepalive",
        SOCKETS,
        '    ("SOL_SOCKET", "SO_KEEPALIVE", 1),\n',
        "",
        ("tests/blocking/test_sockets.py::test_the_system_looks_after_a_peer_that_says_nothing",),
    ),
    Bug(
        "one handler is enough",
        INBOX,
        "        return self._waiting[delivery] == 0\n",
        "        return True\n",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "a handler that failed is outvoted",
        INBOX,
        "        if not well:\n            self._failed.add(delivery)\n",
        "",
        ("tests/adapters/test_handlers.py::test_all_matching_handlers_must_handle_it_well[asyncio]",),
    ),
    Bug(
        "False is as good as True",
        INBOX,
        "        if result is None or result:\n",
        "        if True:\n",
        ("tests/adapters/test_handlers.py::test_a_failed_message_comes_again_until_it_is_handled",),
    ),
    Bug(
        "leaving an iterator acknowledges",
        INBOX,
        "        for run in (*self._held, *self._runs):\n            run.fail()\n",
        "        for run in (*self._held, *self._runs):\n            run.ack()\n",
        ("tests/adapters/test_handlers.py::test_leaving_an_iterator_fails_what_it_holds[asyncio]",),
    ),
    Bug(
        "a database of somebody else is used",
        OPENING,
        "if (wanted is not None and known != wanted) or not mine.may_be(known):",
        "if False:",
        ("tests/adapters/test_instance.py::test_who_it_is_must_not_be_contradicted[asyncio]",),
    ),
    Bug(
        "an option against the certificate",
        OPENING,
        "    if wanted is not None and not mine.may_be(wanted):\n",
        "    if False:\n",
        ("tests/adapters/test_instance.py::test_who_it_is_must_not_be_contradicted[asyncio]",),
    ),
    Bug(
        "derived: ids begin anywhere",
        OPENING,
        "first_id = 1 if wanted is not None and is_derived(wanted) else 1 + secrets.randbelow(LAST_ID)",
        "first_id = 1 + secrets.randbelow(LAST_ID)",
        ("tests/adapters/test_derived.py::test_every_try_of_a_task_counts_once",),
    ),
    Bug(
        "an instance is copied",
        ENDPOINT,
        '        raise TypeError(\n            f"{self} cannot be pickled',
        '        return  # type: ignore\n        raise TypeError(\n            f"{self} cannot be pickled',
        ("tests/blocking/test_threads.py::test_an_instance_is_not_pickled_or_copied",),
    ),
    Bug(
        "a fork of an instance goes on",
        ENDPOINT,
        "        if self._open and self._process != os.getpid():\n",
        "        if False:\n",
        ("tests/adapters/test_instance.py::test_a_forked_child_is_told_to_open_its_own[asyncio]",),
    ),
    Bug(
        "a renewed certificate of somebody else",
        INSTANCE,
        "        if not pumps.identity.may_be(self.node.instance_id):\n",
        "        if False:\n",
        ("tests/adapters/test_renewal.py::test_a_renewed_certificate_is_shown_from_now_on[asyncio]",),
    ),
    Bug(
        "a terminal is written to by a peer",
        CLI_WORDS,
        'return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)',
        "return text",
        ("tests/cli/test_words.py",),
    ),
    Bug(
        "streams: a source is pulled without demand",
        PUBLISHING,
        "            self.credit = min(self._owner.hub.wanted(*self.key), self._step)\n",
        "            self.credit = self._step\n",
        (
            "tests/adapters/test_streams_data.py::test_a_reader_that_stops_stops_the_source",
            "tests/adapters/test_streams_publisher.py::test_rule",
        ),
    ),
    Bug(
        "streams: a source is not closed",
        PUBLISHING,
        "        self.over = True\n"
        "        self.pending.clear()\n"
        "        self.at_end = _unknown\n"
        "        self.bell.ring()\n",
        "        self.over = True\n        self.pending.clear()\n        self.at_end = _unknown\n",
        ("tests/adapters/test_streams_publisher.py::test_rule",),
    ),
    Bug(
        "streams: a window is never filled up",
        SUBSCRIBING,
        "if self._window and not self.closed and outstanding <= self._window // 2:",
        "if False:",
        ("tests/adapters/test_streams_data.py::test_many_streams_on_one_connection",),
    ),
    Bug(
        "streams: access rules are not asked",
        STREAMS,
        'if peer is None or not self._rights(peer.identity).may_subscribe(Subscription(name, "")):',
        "if peer is None:",
        ("tests/adapters/test_streams_life.py::test_over_tls",),
    ),
)
