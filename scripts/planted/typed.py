"""Bugs in typed bodies: codecs, and deliveries whose body has no value."""

from __future__ import annotations

from .bug import Bug

CODECS = "transports/tolliver/codecs/"
PATTERNS = "tests/adapters/test_typed_patterns.py::"
TESTS = "tests/codecs/test_codecs.py::"

BUGS = (
    Bug(
        "typed: a body without a value is acknowledged",
        "transports/tolliver/_messages/typed.py",
        "of",
        "delivery.fail()",
        "delivery.ack()",
        ("tests/adapters/test_typed.py::test_an_iterator_leaves_out_what_does_not_decode_and_goes_on[asyncio]",),
    ),
    Bug(
        "typed: a codec may make no bytes",
        f"{CODECS}_bodies.py",
        "_encoded",
        "not isinstance(body, bytes)",
        "False",
        (f"{TESTS}test_a_codec_that_breaks_its_word_is_told_of",),
    ),
    Bug(
        "typed: NaN becomes null",
        f"{CODECS}_msgspec.py",
        "encode",
        "self._format == 'json' and b'null' in body",
        "False",
        (f"{TESTS}test_a_value_that_does_not_encode_names_the_message",),
    ),
    Bug(
        "typed: a lone surrogate is text",
        f"{CODECS}_strict_json.py",
        "loads",
        "b'\\\\u' in body",
        "False",
        (f"{TESTS}test_a_hostile_body_is_an_error_that_names_the_message[a lone surrogate-json]",),
    ),
    Bug(
        "typed: a number out of range is infinity",
        f"{CODECS}_strict_json.py",
        "_finite",
        "not math.isfinite(number)",
        "False",
        (f"{TESTS}test_a_hostile_body_is_an_error_that_names_the_message[a huge float-json]",),
    ),
    Bug(
        "typed: an event without a time gets one",
        f"{CODECS}_cloudevents.py",
        "decode",
        "fields.pop('time', None)",
        "pass",
        (f"{TESTS}test_nothing_is_made_up_for_an_event",),
    ),
    Bug(
        "typed: base64 that is none is taken",
        f"{CODECS}_cloudevents.py",
        "_data",
        "base64.b64decode(fields.pop('data_base64'), validate=True)",
        "base64.b64decode(fields.pop('data_base64') + '==')",
        (f"{TESTS}test_an_event_that_breaks_the_specification_is_refused",),
    ),
    Bug(
        "typed: a required field may be missing",
        f"{CODECS}_protobuf.py",
        "decode",
        "not message.IsInitialized()",
        "False",
        (f"{TESTS}test_required_fields_that_are_missing_are_an_error",),
    ),
    Bug(
        "typed: a reply that does not decode is an answer",
        f"{CODECS}_requests.py",
        "opened_reply",
        "typed.error is not None",
        "False",
        (f"{PATTERNS}test_a_reply_without_a_body_or_without_a_value_is_a_failure[asyncio]",),
    ),
    Bug(
        "typed: a result that is awaited is not encoded",
        f"{CODECS}_bodies.py",
        "later",
        "closed(given, await result)",
        "await result",
        (f"{PATTERNS}test_values_are_asked_and_answered[asyncio]",),
    ),
    Bug(
        "typed: a value is taken for a pair",
        "transports/tolliver/_messages/queues.py",
        "_pair",
        "isinstance(job, tuple) and len(job) == 2",
        "True",
        (f"{PATTERNS}test_nothing_is_put_that_does_not_encode[asyncio]",),
    ),
    Bug(
        "typed: None is a value, and no name is ever cleared",
        "transports/tolliver/anyio/instance.py",
        "retain",
        "None if value is None else self._encoded(key, value)",
        "self._encoded(key, value)",
        (f"{PATTERNS}test_last_values_have_values[asyncio]",),
    ),
    Bug(
        "typed: choices that no handler has are left out in silence",
        "transports/tolliver/_messages/side_by_side.py",
        "chosen_with",
        "handler is None and how != SideBySide()",
        "False",
        (f"{PATTERNS}test_subscribing_has_the_choices_of_a_registration[asyncio]",),
    ),
)
