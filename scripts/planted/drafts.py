"""Bugs in what the drafts say to the letter: early frames, answers that are no handshake, peers of other habits."""

from __future__ import annotations

from .bug import Bug

DIALING = "tolliver_proto/_node/dialing.py"
STATE = "tolliver_proto/_wire/state.py"
EARLY = "tests/wire/test_connection.py::test_they_are_ignored_before_the_handshake_is_over_too"
ANSWERS = "tests/node/test_connecting.py::test_an_answer_that_is_no_handshake_ends_a_dial_that_is_not_kept_up"
KEPT_UP = "tests/node/test_connecting.py::test_a_remote_that_is_kept_up_is_dialled_on"

BUGS = (
    Bug(
        "what is unexpected before the handshake is over is fatal",
        STATE,
        "_waiting",
        "{**dict.fromkeys(unexpected, Transition(state, _E.IGNORE)), **_READING, **_TIMED, **_GIVE_UP}",
        "{**_READING, **_TIMED, **_GIVE_UP}",
        (EARLY,),
    ),
    Bug(
        "everything is ignored before the handshake is over",
        STATE,
        "_waiting",
        "dict.fromkeys(unexpected, Transition(state, _E.IGNORE))",
        "dict.fromkeys([*unexpected, Signal.TRAFFIC], Transition(state, _E.IGNORE))",
        (EARLY,),
    ),
    Bug(
        "an answer that is no handshake is dialled for ever",
        DIALING,
        "Dialer.ended",
        "failed is not None and not dialled.kept_up",
        "False",
        (ANSWERS,),
    ),
    Bug(
        "an answer that is no handshake ends what is to be kept up",
        DIALING,
        "Dialer.ended",
        "failed is not None and not dialled.kept_up",
        "failed is not None",
        (KEPT_UP,),
    ),
    Bug(
        "an end in the handshake is taken for an answer",
        DIALING,
        "_is_no_handshake",
        "isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)",
        "isinstance(error, RemoteProtocolError)",
        ("tests/node/test_connecting.py::test_an_end_in_the_handshake_is_no_answer",),
    ),
    Bug(
        "a connection that was up and broke the rules is taken for an answer",
        DIALING,
        "Dialer.ended",
        "dialled.up_since is None and _is_no_handshake(error)",
        "_is_no_handshake(error)",
        ("tests/node/test_connecting.py::test_a_connection_that_was_up_and_broke_the_rules_is_no_answer",),
    ),
)
