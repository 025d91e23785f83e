"""Bugs in what the drafts say to the letter: early frames, answers that are no handshake, peers of other habits."""

from __future__ import annotations

from .bug import Bug

SENDER = "tolliver_proto/_node/outboxes/sender.py"
DIALING_PART = "tolliver_proto/_node/links/dialing.py"
CONNECTION = "tolliver_proto/_wire/connection.py"
STATE = "tolliver_proto/_wire/state.py"
CHANGES = "tests/reactive/test_connection.py::test_an_extension_that_changes_a_message_of_the_draft"
EARLY = "tests/wire/test_connection.py::test_they_are_ignored_before_the_handshake_is_over_too"
ANSWERS = "tests/node/links/test_connecting.py::test_an_answer_that_is_no_handshake_ends_a_dial_that_is_not_kept_up"
DIALECTS = "tests/node/test_dialects.py::"
KEPT_UP = "tests/node/links/test_connecting.py::test_a_remote_that_is_kept_up_is_dialled_on"

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
        DIALING_PART,
        "ended",
        "is_self or (ends_calls and not dialled.kept_up)",
        "is_self",
        (ANSWERS,),
    ),
    Bug(
        "an answer that is no handshake ends what is to be kept up",
        DIALING_PART,
        "ended",
        "is_self or (ends_calls and not dialled.kept_up)",
        "ends_calls",
        (KEPT_UP,),
    ),
    Bug(
        "an end in the handshake is taken for an answer",
        DIALING_PART,
        "_is_no_handshake",
        "isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)",
        "isinstance(error, RemoteProtocolError)",
        ("tests/node/links/test_connecting.py::test_an_end_in_the_handshake_is_no_answer",),
    ),
    Bug(
        "a connection that was up and broke the rules is taken for an answer",
        DIALING_PART,
        "ended",
        "up_since is None and _is_no_handshake(error)",
        "_is_no_handshake(error)",
        ("tests/node/links/test_connecting.py::test_a_connection_that_was_up_and_broke_the_rules_is_no_answer",),
    ),
    Bug(
        "a peer's unreliable id is not read",
        CONNECTION,
        "_meet",
        "self._decoder.use(bool(dialect.accept_either), self.unreliable_id)",
        "",
        (DIALECTS + "test_none_of_its_unreliable_messages_is_a_copy_or_a_dead_letter",),
    ),
    Bug(
        "everybody is sent the same unreliable id",
        SENDER,
        "unreliable_send",
        "connection.unreliable_frame(channel, key, body)",
        "self._context.encoder.message(channel, key, body, None)",
        (DIALECTS + "test_what_it_is_sent_unreliably_has_its_mark_and_others_have_theirs",),
    ),
    Bug(
        "a client says another version when its peer has answered",
        CONNECTION,
        "_meet",
        "self.state is State.AWAITING_REQUEST",
        "True",
        ("tests/wire/test_connection.py::test_a_peer_is_spoken_with_as_is_known_of_it",),
    ),
    Bug(
        "what is said of a peer stands over what is said of its remote",
        "tolliver_proto/_wire/dialect.py",
        "over",
        "getattr(other, one.name) if own is None else own",
        "own if getattr(other, one.name) is None else getattr(other, one.name)",
        (DIALECTS + "test_a_remote_stands_over_its_peer_and_that_over_the_instance",),
    ),
    Bug(
        "an ordinary id may mark unreliable messages",
        "tolliver_proto/_wire/dialect.py",
        "__post_init__",
        "self.unreliable_id not in (None, 0) and not RESERVED_ID <= self.unreliable_id <= _MAX_ID",
        "self.unreliable_id is not None and self.unreliable_id < 0",
        ("tests/wire/test_connection.py::test_a_dialect_that_cannot_be_meant",),
    ),
    Bug(
        "streams: a goodbye for a hello says nothing",
        "tolliver_proto/reactive/_connection.py",
        "_take",
        "HelloRefused(frame.reason) if self.state in HANDSHAKING else None",
        "None",
        ("tests/reactive/test_connection.py::test_a_goodbye_for_a_hello_is_a_refusal",),
    ),
    Bug(
        "streams: an extension is not asked in its turn",
        "tolliver_proto/reactive/_connection.py",
        "_take",
        "take is not None",
        "False",
        (CHANGES,),
    ),
    Bug(
        "streams: streams that run are written as before",
        "tolliver_proto/reactive/_connection.py",
        "change",
        "self._publisher.use_layout()",
        "",
        (CHANGES,),
    ),
    Bug(
        "streams: elements are read as before",
        "tolliver_proto/reactive/_connection.py",
        "change",
        "self._decoder.use(read)",
        "",
        (CHANGES,),
    ),
)
