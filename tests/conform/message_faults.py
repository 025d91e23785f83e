"""Faults of peers of messages."""

from __future__ import annotations

from .fault import BOTH, CROSS, DIAL, LISTEN, Edit, Fault, Role, known

_CONNECTION = "tolliver_proto/_wire/connection.py"
_FRAMES = "tolliver_proto/_wire/frames.py"
_STATE = "tolliver_proto/_wire/state.py"
_HANDSHAKES = "tolliver_proto/_node/links/handshakes.py"
_LINKS = "tolliver_proto/_node/links/links.py"
_DIALING = "tolliver_proto/_node/links/dialing.py"
_DELIVERING = "tolliver_proto/_node/inboxes/delivering.py"
_SETTLING = "tolliver_proto/_node/inboxes/settling.py"
_IDS = "tolliver_proto/_node/outboxes/ids.py"
_TRANSMISSION = "tolliver_proto/_node/outboxes/transmission.py"
_OUTBOX = "tolliver_proto/_node/outboxes/outbox.py"
_LISTS = "tolliver_proto/_node/lists/peers.py"
_ROUTES = "tolliver_proto/_node/subscriptions.py"
_POLICY = "transports/tolliver/_tls/policy.py"
_SESSION = "transports/tolliver/_driver/session.py"


def _fault(name: str, ruling: str, roles: tuple[Role, ...], wrong: str, *edits: Edit) -> Fault:
    return Fault(name, ruling, "messages", roles, wrong, edits)


_HANDSHAKE = (
    _fault(
        "request-unanswered",
        "T-61",
        LISTEN,
        "It reads a handshake request and never answers.",
        Edit(_HANDSHAKES, "_on_list_stored", "self._accept(link)", "pass"),
    ),
    _fault(
        "request-answered-late",
        "T-68",
        LISTEN,
        "It has no time limit of its own: a client that says nothing keeps its connection for an hour.",
        Edit(_CONNECTION, "_tick", "self._now + self.limits.handshake_timeout", "self._now + 3600.0"),
    ),
    _fault(
        "status-newer-for-same",
        "T-60",
        LISTEN,
        "It answers a request of its own version with status 1.",
        Edit(
            _CONNECTION,
            "_status_for",
            "return HandshakeStatus.SAME_VERSION",
            "return HandshakeStatus.NEWER_COMPATIBLE",
        ),
    ),
    _fault(
        "response-echoes-version",
        "T-60",
        LISTEN,
        "Its response has the version of the client in place of its own.",
        Edit(
            _CONNECTION,
            "accept",
            "HandshakeResponse(self.version, self.instance_id, status, () if refused else self._listed(own))",
            "HandshakeResponse(self._known_version(), self.instance_id, status, () if refused else self._listed(own))",
        ),
    ),
    _fault(
        "response-lowest-version",
        "T-60",
        LISTEN,
        "Its response has the lower of the two versions in place of its own.",
        Edit(
            _CONNECTION,
            "accept",
            "HandshakeResponse(self.version, self.instance_id, status, () if refused else self._listed(own))",
            """HandshakeResponse(
                min(self.version, self._known_version()),
                self.instance_id, status, () if refused else self._listed(own)
            )""",
        ),
    ),
    _fault(
        "older-version-taken",
        "T-60",
        LISTEN,
        "It answers an older version that it does not speak with status 1, and goes on.",
        Edit(_CONNECTION, "_status_for", "self.state is State.RENEWING or self._speaks(peer_version)", "True"),
    ),
    _fault(
        "newer-version-refused",
        "T-60",
        LISTEN,
        "It answers a newer version with status 2, and does not wait for the final.",
        Edit(
            _CONNECTION,
            "_status_for",
            "return HandshakeStatus.OLDER",
            "return HandshakeStatus.NEWER_INCOMPATIBLE",
        ),
    ),
    _fault(
        "refused-goes-on",
        "T-60",
        LISTEN,
        "It answers status 2 and goes on as if the handshake had succeeded.",
        Edit(
            _CONNECTION, "accept", "self._step(signal, unit)", "self._step(Signal.AGREE if refused else signal, unit)"
        ),
        Edit(
            _CONNECTION,
            "_establish",
            "self._go(TRANSITIONS[self.state][Signal.TAKEN].to)",
            "self._go(State.ESTABLISHED)",
        ),
    ),
    _fault(
        "final-not-awaited",
        "T-64",
        LISTEN,
        "It sends messages behind status 3, before the final has come.",
        Edit(
            _CONNECTION,
            "accept",
            "self._step(signal, unit)",
            "self._step(Signal.AGREE if status is HandshakeStatus.OLDER else signal, unit)",
        ),
        Edit(
            _HANDSHAKES,
            "on_request",
            "self._peer_lists.keep_list(link, self._listed(link, frame))\n"
            "self._connect_wait.begin(link)\n"
            "self._accept(link)",
            "self._store_list(link, self._listed(link, frame))",
        ),
    ),
    _fault(
        "failure-final-ignored",
        "C1",
        LISTEN,
        "It takes a failure final for success.",
        Edit(
            _CONNECTION,
            "_signal_of",
            "Signal.FINAL_COMPATIBLE if frame.compatible else Signal.FINAL_FAILURE",
            "Signal.FINAL_COMPATIBLE",
        ),
        Edit(
            _HANDSHAKES,
            "on_final",
            "frame.compatible and self._admit(link, peer_of(link).uuid)",
            "self._admit(link, peer_of(link).uuid)",
        ),
    ),
    _fault(
        "final-of-draft-1",
        "C1",
        BOTH,
        "Its finals have the codes of draft 1.",
        Edit("tolliver_proto/_wire/layouts.py", "", "{True: 1, False: 2}", "{True: 0, False: 1}"),
    ),
    _fault(
        "unknown-final-is-success",
        "C1",
        LISTEN,
        "It takes a final of an unknown code for success.",
        Edit(_FRAMES, "_read_final", "self._finals.get(head['final'], False)", "self._finals.get(head['final'], True)"),
    ),
    _fault(
        "status-not-checked",
        "T-60",
        DIAL,
        "As a client it looks at the status alone, also where the version contradicts it.",
        Edit(_CONNECTION, "_check_status", "not contradicts", "True"),
    ),
    _fault(
        "failure-final-unsaid",
        "T-60",
        DIAL,
        "As a client it closes after status 3 without a failure final.",
        Edit(_CONNECTION, "_step", "unit is not None", "unit is not None and signal is not Signal.DENY"),
    ),
    _fault(
        "refusal-ignored",
        "T-60",
        DIAL,
        "As a client it goes on after status 2 as if the handshake had succeeded.",
        Edit(
            _CONNECTION,
            "_signal_of",
            "return _RESPONSE_SIGNALS[frame.status]",
            """
            if frame.status is HandshakeStatus.NEWER_INCOMPATIBLE:
                return Signal.RESPONSE_AGREED
            return _RESPONSE_SIGNALS[frame.status]
            """,
        ),
    ),
    _fault(
        "client-speaks-early",
        "T-64",
        DIAL,
        "As a client it sends an ack behind its request, before the response has come.",
        Edit(
            _CONNECTION,
            "__init__",
            "self._write_unit(self._own_handshake(request))",
            """
            self._write_unit(self._own_handshake(request))
            self._write_unit(self.encoder.acks([self.unreliable_id]))
            """,
        ),
    ),
    _fault(
        "message-before-request",
        "T-63",
        LISTEN,
        "It does not mind a message before the handshake.",
        *known("frames before the handshake"),
    ),
    _fault(
        "request-repeated-unanswered",
        "T-66",
        BOTH,
        "It does not answer a request on a live connection.",
        Edit(_STATE, "_live", "Transition(_S.RENEWING, _E.HAND_OUT)", "Transition(state, _E.IGNORE)"),
    ),
    _fault(
        "request-repeated-closes",
        "T-66",
        BOTH,
        "It closes when a request comes on a live connection.",
        Edit(
            _CONNECTION,
            "_check_peer",
            "self.peer_id is not None and (frame.instance_id, frame.version) != (self.peer_id, self.peer_version)",
            "self.peer_id is not None",
        ),
    ),
    _fault(
        "request-repeated-by-another",
        "T-66",
        BOTH,
        "It answers a request of another UUID on a live connection.",
        Edit(
            _CONNECTION,
            "_check_peer",
            "self.peer_id is not None and (frame.instance_id, frame.version) != (self.peer_id, self.peer_version)",
            "False",
        ),
    ),
    _fault(
        "request-repeated-list-ignored",
        "T-66",
        BOTH,
        "It answers a request on a live connection, and does not take its list.",
        Edit(
            _HANDSHAKES,
            "on_request",
            "self._store_list(link, self._listed(link, frame))",
            "self._accept(link) if link.up else self._store_list(link, self._listed(link, frame))",
        ),
    ),
    _fault(
        "stray-handshake-frames-close",
        "T-65",
        BOTH,
        "It closes when an unexpected response or final comes.",
        Edit(_STATE, "_live", "dict.fromkeys(FROM_WIRE, Transition(state, _E.IGNORE))", "{}"),
    ),
    _fault(
        "lost-behind-request",
        "T-69",
        LISTEN,
        "It loses what came in the same read as the handshake request.",
        Edit(
            _CONNECTION,
            "accept",
            "self._status = status",
            "self._status = status\nself._decoder._buffer = type(self._decoder._buffer)()",
        ),
    ),
    _fault(
        "response-joined",
        "T-69",
        BOTH,
        "It writes a handshake's response or final in one TLS record with the frames behind it.",
        *known("units are joined"),
    ),
    _fault(
        "response-has-peers-uuid",
        "T-03",
        LISTEN,
        "Its response has the UUID of the client.",
        Edit(
            _CONNECTION,
            "accept",
            "HandshakeResponse(self.version, self.instance_id, status, () if refused else self._listed(own))",
            "HandshakeResponse(self.version, self.peer_id, status, () if refused else self._listed(own))",
        ),
    ),
    _fault(
        "uuid-little-endian",
        "T-03",
        BOTH,
        "It writes the first fields of its UUID in little-endian order.",
        Edit(_FRAMES, "_handshake", "frame.instance_id.bytes", "frame.instance_id.bytes_le"),
    ),
    _fault(
        "nil-uuid-taken",
        "T-03",
        BOTH,
        "It takes a peer with the nil UUID.",
        Edit(_FRAMES, "_begin", "peer in _NO_UUIDS", "False"),
    ),
    _fault(
        "own-list-empty",
        "T-31",
        BOTH,
        "Its handshakes have an empty list, though it has subscribed.",
        Edit(_CONNECTION, "_listed", "return own if self._layout.has_lists else ()", "return ()"),
    ),
    _fault(
        "entries-with-code",
        "T-04",
        BOTH,
        "The entries in its handshakes begin with a code byte, as a control body does.",
        Edit(
            _FRAMES,
            "_handshake",
            "b''.join(map(self._entry, frame.subscriptions))",
            "b''.join(b'\\x00' + self._entry(one) for one in frame.subscriptions)",
        ),
    ),
    _fault(
        "list-thrown-away",
        "T-61",
        BOTH,
        "It reads the list of a handshake and throws it away.",
        Edit(_HANDSHAKES, "_listed", "return frame.subscriptions", "return ()"),
    ),
    _fault(
        "list-after-response",
        "T-61",
        BOTH,
        "It takes the list of a handshake two seconds after it answered.",
        Edit(
            _HANDSHAKES,
            "on_request",
            "self._store_list(link, self._listed(link, frame))",
            """
            self._store_list(link, ())
            self._context.due["late"] = lambda late: self._peer_lists.hear(
                late[0], ReplacePeerSubscriptions(peer_of(late[0]).uuid, late[1])
            )
            self._timers.set(("late", (link, self._listed(link, frame))), self._context.now + 2.0)
            """,
        ),
    ),
    _fault(
        "list-adds",
        "T-30",
        BOTH,
        "It adds the list of a later handshake to the earlier one, which it should replace.",
        Edit(
            _HANDSHAKES,
            "_store_list",
            "ReplacePeerSubscriptions(peer.uuid, wanted)",
            "ReplacePeerSubscriptions(peer.uuid, (*{*wanted, *peer.lists.subscriptions},))",
        ),
    ),
)

_BYTES = (
    _fault(
        "unknown-code-skipped",
        "T-05",
        BOTH,
        "It skips a frame code that it does not know, byte by byte.",
        Edit(
            _FRAMES,
            "_next_frame_slowly",
            """self._malformed("unknown_type", f"no frame begins with the byte {buffer.data[buffer.pos]} (T-05)")""",
            """
            buffer.pos += 1
            return self.next_frame()
            """,
        ),
    ),
    _fault(
        "length-believed",
        "T-07",
        BOTH,
        "It waits for a body of 2 GiB as soon as a head announces one, and does not close.",
        Edit(_FRAMES, "_read_message", "length > maximum", "False"),
        Edit(_FRAMES, "_parse_run", "first > first_max or second > second_max or third > third_max", "False"),
    ),
    _fault(
        "count-believed",
        "T-08",
        LISTEN,
        "It waits for as many subscriptions as a handshake announces, however many.",
        Edit(_FRAMES, "_begin", "handshake.wanted > limits.max_subscriptions", "False"),
        Edit(
            _FRAMES,
            "_begin",
            "fields.size + handshake.wanted * self._layout.entry.size > limits.max_handshake",
            "False",
        ),
    ),
    _fault(
        "split-frame-lost",
        "T-01",
        BOTH,
        "It loses the beginning of a frame that is cut by the border of a read.",
        Edit(
            _FRAMES,
            "Decoder.feed",
            "self._buffer.feed(bytes(data))",
            """
            self._buffer = Buffer()
            self._buffer.feed(bytes(data))
            """,
        ),
    ),
    _fault(
        "bad-names-close",
        "T-10",
        BOTH,
        "It closes when a message has names that are not UTF-8.",
        Edit(
            _FRAMES,
            "_made",
            "return Ignored(given_id, IgnoreReason.BAD_TEXT)",
            "self._malformed('bad_text', 'a name is not UTF-8')",
        ),
    ),
    _fault(
        "bad-control-closes",
        "T-20",
        BOTH,
        "It closes when a control message has a body that it does not understand.",
        Edit(
            _FRAMES,
            "_read_control",
            "return Ignored(message_id, IgnoreReason.BAD_CONTROL)",
            "self._malformed('bad_control', 'no control body')",
        ),
    ),
    _fault(
        "ignored-unacknowledged",
        "T-20",
        BOTH,
        "It does not acknowledge a message that it cannot understand, so that message comes for ever.",
        Edit(_DELIVERING, "on_ignored", "self._commits.ack(link, [frame.message_id])", "pass"),
    ),
    _fault(
        "control-with-key-obeyed",
        "T-27",
        BOTH,
        "It obeys a message on the channel tolliver that has a key.",
        Edit(_FRAMES, "_read_control", "if key:\n    return Ignored(message_id, IgnoreReason.CONTROL_KEY)", ""),
    ),
    _fault(
        "empty-body-dropped",
        "T-01",
        BOTH,
        "It takes a message with an empty body for none.",
        Edit(
            _DELIVERING,
            "on_message",
            "link.sending.window is None",
            "link.sending.window is None or not message.body",
        ),
    ),
    _fault(
        "body-as-text",
        "T-01",
        BOTH,
        "It decodes bodies as UTF-8, and replaces what is none.",
        Edit(
            "tolliver_proto/_node/actions.py",
            "Delivery.body",
            "return self.message.body",
            "return self.message.body.decode(errors='replace').encode()",
        ),
    ),
    _fault(
        "body-cut",
        "T-06",
        BOTH,
        "It sends the first 64 KiB of a body, and no more.",
        Edit(
            _FRAMES,
            "Encoder.message",
            "channel_size, key_size, body_size = len(raw_channel), len(raw_key), len(body)",
            """
            body = body[:65536]
            channel_size, key_size, body_size = len(raw_channel), len(raw_key), len(body)
            """,
        ),
        Edit(
            _FRAMES,
            "messages",
            "body, wire_id = one.body, one.wire_id",
            "body, wire_id = one.body[:65536], one.wire_id",
        ),
    ),
    _fault(
        "body-split",
        "T-06",
        BOTH,
        "It sends a body of more than 64 KiB as several messages.",
        Edit(
            _TRANSMISSION,
            "pump",
            "connection.send_encoded(data)",
            """
            if len(run) == 1 and len(run[0].body) > 65536:
                one = run[0]
                data = b"".join(
                    connection.encoder.message(one.channel, one.key, one.body[at : at + 65536], one.wire_id)
                    for at in range(0, len(one.body), 65536)
                )
            connection.send_encoded(data)
            """,
        ),
    ),
)

_SUBSCRIPTIONS = (
    _fault(
        "unsubscribe-ignored",
        "C2",
        BOTH,
        "It takes an unsubscribe message for a subscribe message.",
        Edit(
            _LISTS,
            "on_control",
            "isinstance(frame, Subscribe)",
            "True",
        ),
    ),
    _fault(
        "subscribe-ignored",
        "T-28",
        BOTH,
        "It acknowledges a subscribe message, and sends nothing for it.",
        Edit(
            _LISTS,
            "hear",
            "self.route_to(link.peer, self._removed_by(link, said))",
            "if not isinstance(said, AddPeerSubscription):\n    self.route_to(link.peer, self._removed_by(link, said))",
        ),
    ),
    _fault(
        "control-unacknowledged",
        "T-28",
        BOTH,
        "It does not acknowledge control messages.",
        Edit(_LISTS, "_change_list", "self._commits.batch.acks[link].append(message_id)", "pass"),
        Edit(_LISTS, "_on_entries", "self._commits.ack(link, [message_id])", "pass"),
    ),
    _fault(
        "unreliable-control-ignored",
        "T-28",
        BOTH,
        "It ignores a control message that has the unreliable id.",
        Edit(
            _LISTS,
            "_on_entries",
            "peer is None or not link.up",
            "peer is None or not link.up or message_id is None",
        ),
    ),
    _fault(
        "wildcard-removal-removes-all",
        "T-26",
        BOTH,
        "When a wildcard is unsubscribed it removes all that this covers, too.",
        Edit(
            _ROUTES,
            "applied",
            "subscriptions -= {operation.subscription}",
            "subscriptions = frozenset(one for one in subscriptions if not overlap(one, operation.subscription))",
        ),
    ),
    _fault(
        "no-wildcards",
        "T-24",
        BOTH,
        "An empty name in a subscription matches empty names alone.",
        Edit(
            _ROUTES,
            "matching",
            "return Subscription(channel, key), Subscription(channel, ''), Subscription('', key), Subscription('', '')",
            "return (Subscription(channel, key),)",
        ),
    ),
    _fault(
        "no-wildcard-channels",
        "T-24",
        BOTH,
        "An empty channel in a subscription matches nothing; an empty key matches all keys.",
        Edit(
            _ROUTES,
            "matching",
            "return Subscription(channel, key), Subscription(channel, ''), Subscription('', key), Subscription('', '')",
            "return Subscription(channel, key), Subscription(channel, '')",
        ),
    ),
    _fault(
        "key-ignored",
        "T-24",
        BOTH,
        "It sends a subscriber every key of a channel.",
        Edit(
            _ROUTES,
            "_look_up",
            "matching(channel, key)",
            "[one for one in self._targets if one.channel in ('', channel)]",
        ),
    ),
    _fault(
        "sent-to-everybody",
        "T-24",
        BOTH,
        "It sends each message to every peer that subscribes to anything.",
        Edit(_ROUTES, "_look_up", "matching(channel, key)", "[*self._targets]"),
    ),
    _fault(
        "case-ignored",
        "T-11",
        BOTH,
        "It compares channels and keys without their case.",
        Edit(
            _ROUTES,
            "_look_up",
            "matching(channel, key)",
            """[
                one for one in self._targets
                if one.channel.casefold() in ('', channel.casefold()) and one.key.casefold() in ('', key.casefold())
            ]""",
        ),
    ),
    _fault(
        "copy-for-each-subscription",
        "T-25",
        BOTH,
        "It sends a message as often as subscriptions of the peer match.",
        Edit(
            _TRANSMISSION,
            "pump",
            "connection.send_encoded(data)",
            """
            from ..subscriptions import matching
            for _ in {*matching(run[0].channel, run[0].key)} & peer.lists.subscriptions:
                connection.send_encoded(data)
            """,
        ),
    ),
)

_ACKS = (
    _fault(
        "ack-on-receipt",
        "T-45",
        BOTH,
        "It acknowledges a message when it comes, before its handler has it.",
        *known("ack before handler"),
    ),
    _fault(
        "ack-of-failure",
        "T-45",
        BOTH,
        "It acknowledges a message whose handler has failed, as one that was handled.",
        Edit(
            _SETTLING,
            "fail",
            "deliveries = [*deliveries]",
            """
            self.acknowledge(deliveries)
            return
            """,
        ),
    ),
    _fault(
        "no-acks",
        "T-45",
        BOTH,
        "It acknowledges nothing that it has handled.",
        Edit(_SETTLING, "acknowledge", "self._commits.ack(acked, message_ids)", "pass"),
    ),
    _fault(
        "failure-not-tried-again",
        "T-45",
        BOTH,
        "It drops every further copy of a message whose handler has failed, without an ack.",
        Edit(
            _SETTLING,
            "fail",
            "self._counts['failed'] += 1",
            """
            self._counts['failed'] += 1
            self._delivering.__dict__.setdefault("lost", set()).add((delivery.peer_id, delivery.message.message_id))
            """,
        ),
        Edit(
            _DELIVERING,
            "on_message",
            "link.sending.window is None",
            "link.sending.window is None or (link.peer.uuid, message.message_id) in self.__dict__.get('lost', ())",
        ),
    ),
    _fault(
        "copy-unacknowledged",
        "T-48",
        BOTH,
        "It drops a copy of what it has handled, and does not acknowledge the copy.",
        Edit(
            _SETTLING,
            "acknowledge",
            "acks.setdefault(link, []).append(message_id)",
            """
            acks.setdefault(link, []).append(message_id)
            self._delivering.__dict__.setdefault("seen", set()).add((delivery.peer_id, message_id))
            """,
        ),
        Edit(
            _DELIVERING,
            "on_message",
            "inbox.add(delivery)",
            """
            if (peer.uuid, message.message_id) in self.__dict__.get("seen", ()):
                return
            inbox.add(delivery)
            """,
        ),
    ),
    _fault(
        "told-by-id-alone",
        "T-48",
        BOTH,
        "It takes another message under an id that it has handled for a copy, and acknowledges it away.",
        Edit(
            _SETTLING,
            "acknowledge",
            "acks.setdefault(link, []).append(message_id)",
            """
            acks.setdefault(link, []).append(message_id)
            self._delivering.__dict__.setdefault("seen", set()).add((delivery.peer_id, message_id))
            """,
        ),
        Edit(
            _DELIVERING,
            "on_message",
            "inbox.add(delivery)",
            """
            if (peer.uuid, message.message_id) in self.__dict__.get("seen", ()):
                self._commits.ack(link, [message.message_id])
                return
            inbox.add(delivery)
            """,
        ),
    ),
    _fault(
        "high-water-mark",
        "T-48",
        BOTH,
        "It acknowledges away what has a lower id than one that it has handled.",
        Edit(
            _SETTLING,
            "acknowledge",
            "acks.setdefault(link, []).append(message_id)",
            """
            acks.setdefault(link, []).append(message_id)
            marks = self._delivering.__dict__.setdefault("marks", {})
            marks[delivery.peer_id] = max(message_id, marks.get(delivery.peer_id, 0))
            """,
        ),
        Edit(
            _DELIVERING,
            "on_message",
            "inbox.add(delivery)",
            """
            if (message.message_id or 2**32) < self.__dict__.get("marks", {}).get(peer.uuid, 0):
                self._commits.ack(link, [message.message_id])
                return
            inbox.add(delivery)
            """,
        ),
    ),
    _fault(
        "ack-outlives-connection",
        "T-49",
        BOTH,
        "It sends the ack of a message on a later connection than that which brought the message.",
        *known("an ack outlives its connection"),
    ),
    _fault(
        "unreliable-acknowledged",
        "T-42",
        BOTH,
        "It acknowledges unreliable messages.",
        Edit(_FRAMES, "_parse_run", "None if message_id == unreliable else message_id", "message_id"),
        Edit(_FRAMES, "_read_message", "None if message_id == self._unreliable else message_id", "message_id"),
    ),
    _fault(
        "unreliable-unhandled",
        "T-55",
        BOTH,
        "It does not hand out unreliable messages.",
        Edit(
            _DELIVERING,
            "on_message",
            "link.sending.window is None",
            "link.sending.window is None or message.message_id is None",
        ),
    ),
    _fault(
        "highest-id-unacknowledged",
        "T-42",
        BOTH,
        "It takes the id 2^32-1 for unreliable, too.",
        *known("2^32-1 not acked"),
        Edit(
            _FRAMES,
            "_read_message",
            "message_id == self._unreliable",
            "message_id in (self._unreliable, 2**32 - 1)",
        ),
    ),
    _fault(
        "id-zero-unacknowledged",
        "T-42",
        BOTH,
        "It takes the id 0 for unreliable, too.",
        Edit(_FRAMES, "_parse_run", "message_id == unreliable", "message_id in (unreliable, 0)"),
        Edit(_FRAMES, "_read_message", "message_id == self._unreliable", "message_id in (self._unreliable, 0)"),
    ),
    _fault(
        "unwanted-unacknowledged",
        "T-46",
        BOTH,
        "It never acknowledges a message that it did not subscribe to.",
        Edit(_DELIVERING, "leave_to_sender", "self._commits.ack(link, [message_id])", "pass"),
    ),
    _fault(
        "probe-unacknowledged",
        "T-80",
        BOTH,
        "It does not acknowledge a message on tolliver.probe.",
        Edit(
            _DELIVERING,
            "leave_to_sender",
            "self._commits.ack(link, [message_id])",
            "message.channel == PROBE_CHANNEL or self._commits.ack(link, [message_id])",
        ),
    ),
    _fault(
        "stray-ack-closes",
        "T-44",
        BOTH,
        "It closes when an ack comes that fits nothing.",
        Edit(_LINKS, "_on_other_ack", "self._counts['stray_acks'] += 1", "self.end(link)"),
    ),
    _fault(
        "ack-probe-closes",
        "T-80",
        BOTH,
        "It closes when an ack of the unreliable id comes, by which others probe.",
        Edit(
            _LINKS,
            "_on_other_ack",
            "if wire_id != link.connection.unreliable_id:\n    self._counts['stray_acks'] += 1",
            "if wire_id == link.connection.unreliable_id:\n    self.end(link)",
        ),
    ),
    _fault(
        "handled-backwards",
        "T-51",
        BOTH,
        "It hands out a run of messages the last one first.",
        Edit(
            _DELIVERING,
            "on_message",
            "run.deliveries.append(delivery)",
            "run.deliveries.insert(0, delivery)",
        ),
    ),
    _fault(
        "reading-never-resumed",
        "T-52",
        BOTH,
        "Once it has paused reading, as its handlers had too much, it never goes on.",
        Edit(
            "tolliver_proto/_common/connection_table.py",
            "_set_paused",
            "paused is not link.paused",
            "paused and not link.paused",
        ),
    ),
)

_SENDING = (
    _fault(
        "reliable-as-unreliable",
        "T-42",
        BOTH,
        "It sends with the unreliable id what it was asked to send reliably.",
        Edit(
            _TRANSMISSION,
            "pump",
            "connection.send_encoded(data)",
            """
            for one in run:
                connection.send_encoded(connection.unreliable_frame(one.channel, one.key, one.body))
            """,
        ),
    ),
    _fault(
        "ids-from-zero",
        "T-40",
        BOTH,
        "Its first message has the id 0.",
        Edit(
            _IDS,
            "_begin",
            "self._first = self._next = self._clear_until = first",
            "self._first = self._next = self._clear_until = 0",
        ),
        Edit(_IDS, "_is_clear", "beyond = last - LAST_ID", "return True"),
    ),
    _fault(
        "ids-above-range",
        "T-40",
        BOTH,
        "It gives ids from 2^31 on.",
        Edit(_IDS, "", "LAST_ID = 2**31 - 2", "LAST_ID = 2**32 - 2"),
        Edit(
            _IDS,
            "_begin",
            "self._first = self._next = self._clear_until = first",
            "self._first = self._next = self._clear_until = 2**31 + 5",
        ),
    ),
    _fault(
        "ids-do-not-wrap",
        "T-41",
        BOTH,
        "It begins a few ids below 2^31-2, and goes on above.",
        Edit(_IDS, "", "LAST_ID = 2**31 - 2", "LAST_ID = 2**32 - 2"),
        Edit(
            _IDS,
            "_begin",
            "self._first = self._next = self._clear_until = first",
            """
            self.live.add(2**31 - 1, 2**31 - 1)
            self._first = self._next = self._clear_until = 2**31 - 5
            """,
        ),
    ),
    _fault(
        "id-of-unacknowledged",
        "T-40",
        BOTH,
        "It gives an id again that is not acknowledged yet: it counts to 4.",
        Edit(
            _TRANSMISSION,
            "pump",
            "connection.send_encoded(data)",
            """
            for one in run:
                connection.send_encoded(
                    connection.encoder.message(one.channel, one.key, one.body, 1 + one.wire_id % 4)
                )
            """,
        ),
        Edit(
            _LINKS,
            "_on_acks",
            "others = link.sending.window.take_acked(wire_ids, acked) if link.sending.window is not None else wire_ids",
            """
            window = link.sending.window
            if window is not None:
                wire_ids = [
                    next((given for given in window._unacked if 1 + given % 4 == wire_id), wire_id)
                    for wire_id in wire_ids
                ]
            others = window.take_acked(wire_ids, acked) if window is not None else wire_ids
            """,
        ),
    ),
    _fault(
        "resent-under-another-id",
        "T-50",
        BOTH,
        "It sends an unacknowledged message again under another id.",
        Edit(
            _TRANSMISSION,
            "pump",
            "connection.send_encoded(data)",
            """
            if run[0].seq <= peer.outbox.sent_to:
                data = b"".join(
                    connection.encoder.message(one.channel, one.key, one.body, 1 + (one.wire_id + 2**20) % (2**31 - 3))
                    for one in run
                )
            connection.send_encoded(data)
            """,
        ),
    ),
    _fault(
        "no-resend-after-reconnect",
        "T-50",
        BOTH,
        "It does not send again on a new connection what was not acknowledged on the one before.",
        Edit(
            _OUTBOX,
            "Window.__init__",
            "0 if outbox.pending else outbox.last_seq",
            "max(outbox.sent_to, 0) if outbox.pending else outbox.last_seq",
        ),
    ),
    _fault(
        "no-resend",
        "T-50",
        BOTH,
        "It does not send again on a live connection what is not acknowledged.",
        Edit(
            _OUTBOX,
            "interval",
            "return min(doubled, max(self._limits.resend_max, self._retry_interval)) * (1.0 + 0.2 * self._jitter())",
            "return 1e9",
        ),
    ),
    _fault(
        "resent-backwards",
        "T-51",
        BOTH,
        "After a reconnect it sends what is unacknowledged in reverse order.",
        *known("resend out of order"),
    ),
    _fault(
        "forgotten-when-sent",
        "T-50",
        BOTH,
        "It forgets a message when the message is sent, not when it is acknowledged.",
        Edit(
            _TRANSMISSION,
            "pump",
            "room -= len(data)",
            """
            room -= len(data)
            self.settle(link, {one.wire_id: window.acked(one.wire_id) for one in run})
            """,
        ),
    ),
    _fault(
        "anybodys-ack",
        "T-43",
        BOTH,
        "An ack by one peer counts for all peers that the message is for.",
        *known("ack keyed by id only"),
    ),
    _fault(
        "first-ack-counts",
        "T-43",
        BOTH,
        "It removes a message for all peers when the first one has acknowledged it.",
        *known("the first ack removes the message for all"),
    ),
)

_CONNECTIONS = (
    _fault(
        "older-connection-kept",
        "T-70",
        LISTEN,
        "It closes the newer of two connections of one peer.",
        Edit(_HANDSHAKES, "_keeps", "return False", "return True"),
    ),
    _fault(
        "both-connections-kept",
        "T-70",
        LISTEN,
        "It keeps both connections of one peer open.",
        Edit(_HANDSHAKES, "_replaces", "self._links.end(loser)", "pass"),
    ),
    _fault(
        "wrong-side-yields",
        "T-70",
        CROSS,
        "Of two dials that cross it keeps the one by the higher UUID.",
        Edit(
            _HANDSHAKES,
            "_keeps",
            "self._dialled_by(old) < self._dialled_by(new)",
            "self._dialled_by(old) > self._dialled_by(new)",
        ),
    ),
    _fault(
        "crossing-both-closed",
        "T-70",
        CROSS,
        "It closes both of two dials that cross.",
        *known("both duplicates closed"),
    ),
    _fault(
        "own-uuid-taken",
        "T-71",
        BOTH,
        "It takes a peer that has its own UUID.",
        Edit(_HANDSHAKES, "_admit", "claimed == self._context.instance_id", "False"),
    ),
    _fault(
        "impostor-taken",
        "T-72",
        BOTH,
        "It takes any UUID from any certificate.",
        Edit(
            "tolliver_proto/_node/links/admission.py",
            "conflict",
            "known = self._peers.get(claimed)",
            "return None",
        ),
    ),
    _fault(
        "never-redials",
        "T-76",
        DIAL,
        "It does not dial again when a connection has ended.",
        Edit(
            _DIALING,
            "ended",
            "self._dial_in(dialled, self._pause(dialled, is_refused), now)",
            "pass",
        ),
    ),
    _fault(
        "redial-storm",
        "T-76",
        DIAL,
        "It dials again at once, without a pause, however often its connections end.",
        Edit(_DIALING, "_dial_in", "max(seconds, dialled.bucket.pause(now))", "0.0"),
    ),
    _fault(
        "close-notify-ignored",
        "T-67",
        BOTH,
        "It does not close when its peer has said close_notify.",
        Edit(_SESSION, "_hand_over", "pump.peer_closed", "False"),
    ),
    _fault(
        "no-close-notify",
        "T-67",
        BOTH,
        "It ends without close_notify.",
        Edit(_SESSION, "_next_unit", "self._pump.close_notify()", "pass"),
    ),
    _fault(
        "tls-1.2",
        "D-1",
        BOTH,
        "It speaks TLS 1.2 with whoever asks for that.",
        Edit(
            _POLICY,
            "_context",
            "ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3",
            "ssl.TLSVersion.TLSv1_2",
        ),
    ),
    _fault(
        "no-client-certificate",
        "D-1",
        LISTEN,
        "It takes a client that shows no certificate.",
        Edit(
            _POLICY,
            "_context",
            "ssl.CERT_REQUIRED",
            "ssl.CERT_OPTIONAL if protocol == ssl.PROTOCOL_TLS_SERVER else ssl.CERT_REQUIRED",
        ),
    ),
    _fault(
        "no-alpn",
        "D-1",
        BOTH,
        "It offers and chooses no protocol by ALPN.",
        Edit(_POLICY, "_context", "context.set_alpn_protocols([alpn])", "pass"),
    ),
)

MESSAGE_FAULTS = (*_HANDSHAKE, *_BYTES, *_SUBSCRIPTIONS, *_ACKS, *_SENDING, *_CONNECTIONS)
