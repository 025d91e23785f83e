"""Bugs in frames, layouts and handshakes on one connection, and in what all connections share."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "2^32-1 not acked",
        "tolliver_proto/_wire/frames.py",
        "_parse_run",
        "message_id == unreliable",
        "message_id in (unreliable, 2**32 - 1)",
        ("tests/wire/test_decoding.py::test_many_frames_with_known_names_in_any_pieces",),
    ),
    Bug(
        "layouts: a count of control entries is believed",
        "tolliver_proto/_wire/frames.py",
        "_control_entries",
        "left > min(most, (len(body) - at) // form.entry.size)",
        "False",
        ("tests/wire/test_layouts.py::test_a_control_body_that_is_not_its_entries",),
    ),
    Bug(
        "final codes swapped",
        "tolliver_proto/_wire/layouts.py",
        "",
        "{True: 1, False: 2}",
        "{True: 2, False: 1}",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "layouts: a refusal is taken for an ack",
        "tolliver_proto/_wire/layouts.py",
        "",
        "{Ack: 0, Refusal: 1}",
        "{Ack: 1, Refusal: 0}",
        ("tests/wire/test_vectors.py::test_written_as_the_table_says",),
    ),
    Bug(
        "a peer may take for ever to close",
        "tolliver_proto/_wire/connection.py",
        "_go",
        "self._now + self.limits.close_timeout",
        "None",
        ("tests/wire/test_connection.py::test_the_handshake_has_ten_seconds_from_the_start",),
    ),
    Bug(
        "frames before the handshake",
        "tolliver_proto/_wire/connection.py",
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
        "another UUID in a second handshake",
        "tolliver_proto/_wire/connection.py",
        "_check_peer",
        "self.peer_id is not None",
        "False",
        ("tests/wire/test_connection.py::test_a_repeated_request_must_be_of_the_same_peer",),
    ),
    Bug(
        "strangers without a bound",
        "tolliver_proto/_common/handshake_limiter.py",
        "full",
        "self._in_progress[share] >= self.most(share)",
        "False",
        ("tests/node/links/test_access.py::test_handshakes_in_progress_are_bounded",),
    ),
    Bug(
        "streams: what was received before the loss is dropped",
        "tolliver_proto/_common/connection_table.py",
        "_lost",
        "link.state in HANDING_OUT",
        "False",
        ("tests/reactive/test_hub_closing.py::test_lost_with_streams_and_unread_data",),
    ),
    Bug(
        "idle sockets keep a good peer out",
        "tolliver_proto/_common/connection_table.py",
        "new_cid",
        "full is not None and (least := self._least_advanced(full, address)) is not None",
        "False",
        ("tests/node/links/test_access.py::test_the_oldest_silent_one_of_an_address_makes_room",),
    ),
)
