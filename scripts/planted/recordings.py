"""Bugs in recordings and stages."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "recordings: no checksum of the payload",
        "tolliver_proto/recording.py",
        "_items_of",
        'crc32(data) != head.values["payload_crc32"]',
        "False",
        ("tests/wire/test_recording.py::test_no_flipped_bit_is_silent",),
    ),
    Bug(
        "recordings: a torn block is not told",
        "tolliver_proto/recording.py",
        "finish",
        "self._stopped or not rest",
        "True",
        ("tests/wire/test_recording.py::test_a_torn_file_gives_what_is_whole_and_says_where_it_is_torn",),
    ),
    Bug(
        "recordings: a hole in a direction",
        "transports/tolliver/_messages/recorder.py",
        "_stop",
        "self._stopped.add(cid)",
        "",
        ("tests/adapters/test_recorder.py::test_a_full_queue_ends_the_recording_of_that_connection_alone",),
    ),
    Bug(
        "stage: another message under a known id is a copy",
        "transports/tolliver/staging/_seen.py",
        "take",
        "known is _YES",
        "True",
        ("tests/staging/test_writer.py::test_other_messages_under_known_ids_are_staged",),
    ),
    Bug(
        "stage: a place is compared by its bytes alone, and not by the opening that wrote before it",
        "transports/tolliver/staging/_folder.py",
        "check",
        "self._incarnation(position)",
        "None",
        ("tests/staging/test_copies.py::test_messages_that_others_have_deleted",),
    ),
)
