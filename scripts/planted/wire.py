"""Bugs in the wire: frames, layouts, and one connection."""

from __future__ import annotations

from .bug import Bug

SENDER = "tolliver_proto/_node/outboxes/sender.py"
TRANSMISSION = "tolliver_proto/_node/outboxes/transmission.py"
HANDSHAKES = "tolliver_proto/_node/links/handshakes.py"
OUTBOX = "tolliver_proto/_node/outboxes/outbox.py"
FRAMES = "tolliver_proto/_wire/frames.py"
LAYOUTS = "tolliver_proto/_wire/layouts.py"
STATE = "tolliver_proto/_wire/state.py"
CONNECTION = "tolliver_proto/_wire/connection.py"

BUGS = (
    Bug(
        "2^32-1 not acked",
        FRAMES,
        "_parse_run",
        "message_id == unreliable",
        "message_id in (unreliable, 2**32 - 1)",
        ("tests/wire/test_decoding.py::test_many_frames_with_known_names_in_any_pieces",),
    ),
    Bug(
        "final codes swapped",
        LAYOUTS,
        "",
        "{True: 1, False: 2}",
        "{True: 2, False: 1}",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "status 2 continues",
        STATE,
        "",
        """
        {
            Signal.AGREE: Transition(_S.AGREED, _E.NONE),
            Signal.REFUSE: _OVER,
            Signal.DEFER: Transition(_S.AWAITING_FINAL, _E.NONE),
            Signal.REJECT: _NOTHING,
            **_TIMED,
            **_GIVE_UP,
        }
        """,
        """
        {
            Signal.AGREE: Transition(_S.AGREED, _E.NONE),
            Signal.REFUSE: Transition(_S.AGREED, _E.NONE),
            Signal.DEFER: Transition(_S.AWAITING_FINAL, _E.NONE),
            Signal.REJECT: _NOTHING,
            **_TIMED,
            **_GIVE_UP,
        }
        """,
        ("tests/wire/test_versions.py::test_the_table",),
    ),
    Bug(
        "a stranger has all the time in the world",
        CONNECTION,
        "next_timeout",
        "self._deadline if self._handshaking else self.close_deadline",
        "self.close_deadline",
        ("tests/node/links/test_connecting.py::test_time_limits",),
    ),
    Bug(
        "a peer may take for ever to close",
        CONNECTION,
        "_go",
        "self._now + self.limits.close_timeout",
        "None",
        ("tests/wire/test_connection.py::test_the_handshake_has_ten_seconds_from_the_start",),
    ),
    Bug(
        "a long body is waited for",
        FRAMES,
        "_read_message",
        "length > maximum",
        "length > 2 * maximum",
        ("tests/wire/test_limits.py::test_refused_when_the_head_is_in_and_not_before",),
    ),
    Bug(
        "a handshake shares its unit",
        CONNECTION,
        "_write_unit",
        """
        self._seal()
        self._units.append(unit)
        """,
        "self._parts.append(unit)",
        ("tests/wire/test_connection.py::test_handshake_frames_are_units_of_their_own",),
    ),
    Bug(
        "frames before the handshake",
        CONNECTION,
        "_take",
        "step = TRANSITIONS[self.state].get(signal)",
        """
        step = TRANSITIONS[self.state].get(signal)
        if step is None and signal is Signal.TRAFFIC:
            return frame
        """,
        ("tests/wire/test_connection.py::test_the_first_frame_of_a_server_must_be_a_request",),
    ),
    Bug(
        "handshakes on a live connection without a bound",
        CONNECTION,
        "_pause_before",
        "_spent(self._renewals, self._now)",
        "0.0",
        ("tests/wire/test_connection.py::test_repeated_requests_beyond_a_burst_wait_their_turn",),
    ),
    Bug(
        "another UUID in a second handshake",
        CONNECTION,
        "_check_peer",
        "self.peer_id is not None",
        "False",
        ("tests/wire/test_connection.py::test_a_repeated_request_must_be_of_the_same_peer",),
    ),
    Bug(
        "an end inside a frame is in order",
        CONNECTION,
        "_end_of_input",
        """
        try:
            self._decoder.finish()
        except UnexpectedEOF as partial:
            error = partial
        """,
        """
        try:
            self._decoder.finish()
        except UnexpectedEOF:
            pass
        """,
        ("tests/wire/test_connection.py::test_the_end_of_the_stream_inside_a_frame_is_an_error_after_the_whole_ones",),
    ),
    Bug(
        "a status that contradicts the versions is believed",
        CONNECTION,
        "_check_status",
        """
        if not contradicts:
            return
        """,
        "return",
        ("tests/wire/test_versions.py::test_a_status_that_contradicts_the_versions",),
    ),
    Bug(
        "a control body with something behind it",
        FRAMES,
        "_control_entries",
        "at == len(body)",
        "at <= len(body)",
        ("tests/wire/test_decoding.py::test_a_control_body_that_makes_no_sense_is_ignored_with_its_id",),
    ),
    Bug(
        "names are cached by their beginning",
        FRAMES,
        "_remember",
        "self._names[raw] = text",
        "self._names[raw] = text.strip()",
        ("tests/wire/test_decoding.py::test_names_are_compared_byte_for_byte",),
    ),
    Bug(
        "layouts: a refusal is taken for an ack",
        LAYOUTS,
        "",
        "{Ack: 0, Refusal: 1}",
        "{Ack: 1, Refusal: 0}",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "layouts: a status that is not known is an ack",
        FRAMES,
        "_read_ack",
        "self._ack_kinds.get(head['status'], Refusal)",
        "self._ack_kinds.get(head['status'], Ack)",
        ("tests/wire/test_layouts.py::test_what_the_made_up_one_cannot_hold",),
    ),
    Bug(
        "layouts: a length between parts is waited for",
        FRAMES,
        "_read_spread_message",
        "length > maximum",
        "False",
        ("tests/wire/test_layouts.py::test_every_length_and_count_is_refused_as_soon_as_it_is_in_sight",),
    ),
    Bug(
        "layouts: a count of control entries is believed",
        FRAMES,
        "_control_entries",
        "left > min(most, (len(body) - at) // form.entry.size)",
        "False",
        ("tests/wire/test_layouts.py::test_a_control_body_that_is_not_its_entries",),
    ),
    Bug(
        "layouts: an id of any size",
        FRAMES,
        "_checked_id",
        "message_id > self._max_id",
        "False",
        ("tests/wire/test_layouts.py::test_a_message_id_that_no_row_has",),
    ),
    Bug(
        "layouts: no final after a success",
        CONNECTION,
        "_take",
        "signal is Signal.RESPONSE_AGREED and self._layout.final_always",
        "False",
        ("tests/wire/test_layouts.py::test_a_client_says_its_final_before_anything_else",),
    ),
    Bug(
        "layouts: a server waits for no final after a success",
        CONNECTION,
        "accept",
        "signal is Signal.AGREE and self._layout.final_always",
        "False",
        ("tests/wire/test_layouts.py::test_a_server_waits_for_it",),
    ),
    Bug(
        "layouts: who dials us is read as everybody",
        CONNECTION,
        "_choose_layout",
        "self._decoder.speak(revision)",
        "pass",
        ("tests/wire/test_layouts.py::test_who_it_is_chooses_the_layout",),
    ),
    Bug(
        "layouts: the unreliable id of everybody",
        CONNECTION,
        "_choose_layout",
        "self.unreliable_id = self._layout.unreliable_id",
        "pass",
        ("tests/wire/test_layouts.py::test_who_it_is_chooses_the_layout",),
    ),
    Bug(
        "layouts: a part that is not whole is a frame",
        LAYOUTS,
        "read",
        "after > end",
        "False",
        ("tests/wire/test_layouts.py::test_vectors_of_the_made_up_one",),
    ),
    Bug(
        "layouts: a refused message is given up",
        OUTBOX,
        "refused",
        "self._limits.backoff_messages",
        "0",
        ("tests/node/test_foreign.py::test_a_refused_message_stays_blocks_nobody_and_goes_again_with_growing_pauses",),
    ),
    Bug(
        "layouts: reliable messages wait for a peer without acks",
        HANDSHAKES,
        "_admit",
        "self._routing.set_takes_reliable(link.peer, connection_of(link).can_send(Ack))",
        "pass",
        ("tests/node/test_foreign.py::test_no_reliable_message_is_for_a_peer_without_acks",),
    ),
    Bug(
        "layouts: one frame for peers of all layouts",
        TRANSMISSION,
        "pump",
        "self._encoded(run) if link not in self._context.foreign else connection.encoder.messages(run)",
        "self._encoded(run)",
        ("tests/node/test_foreign.py::test_one_that_dials_us_is_known_by_its_uuid",),
    ),
    Bug(
        "layouts: part of a run is sent where one layout cannot carry it",
        SENDER,
        "unreliable_send",
        "peers = self._with_foreign(peers, channel, key, body, to is None)",
        "peers += self._routing.one_way.match(channel, key).peers",
        ("tests/node/test_foreign.py::test_what_its_format_cannot_carry_goes_to_nobody",),
    ),
    Bug(
        "what strays without end is read on without a pause",
        CONNECTION,
        "_pause_before",
        "min(_spent(self._unexpected, self._now), _STRAY_PAUSE)",
        "0.0",
        ("tests/node/links/test_connecting.py::test_a_peer_that_strays_without_end_is_not_read_without_end",),
    ),
)
