"""Faults of peers of Reactive Streams."""

from __future__ import annotations

from .fault import BOTH, LISTEN, Edit, Fault, Role, known

_CONNECTION = "tolliver_proto/reactive/_connection.py"
_FRAMES = "tolliver_proto/reactive/_frames.py"
_PUBLISHER = "tolliver_proto/reactive/_publisher.py"
_SUBSCRIBER = "tolliver_proto/reactive/_subscriber.py"
_PUBLISHING = "transports/tolliver/_streams/publishing.py"


def _fault(name: str, ruling: str, wrong: str, *edits: Edit, roles: tuple[Role, ...] = BOTH) -> Fault:
    return Fault(f"streams-{name}", ruling, "streams", roles, wrong, edits)


_AS_PUBLISHER = (
    _fault(
        "without-demand",
        "R-18",
        "It sends elements whether they are asked for or not.",
        *known("streams: a source is pulled without demand"),
        Edit(_PUBLISHER, "_check_allowed", "count > stream.demand", "False"),
    ),
    _fault(
        "one-too-many",
        "R-18",
        "It sends one element more than was asked for.",
        Edit(
            _PUBLISHER,
            "Publisher.demand",
            "return stream.demand if stream else 0",
            "return max(0, stream.demand + (stream.demand > 0)) if stream else 0",
        ),
        Edit(_PUBLISHER, "_check_allowed", "count > stream.demand", "count > stream.demand + 1"),
    ),
    _fault(
        "packed-counts-one",
        "R-23",
        "It counts a packed frame as one element of the demand.",
        Edit(
            _PUBLISHER,
            "Publisher.next_many",
            "stream.demand -= good",
            "stream.demand -= min(good, 1) if stream.size else good",
        ),
    ),
    _fault(
        "demand-replaced",
        "R-17",
        "A request replaces the demand, which it should add to.",
        Edit(
            _PUBLISHER,
            "take",
            "stream.demand = min(stream.demand + frame.count, MAX_LONG)",
            "stream.demand = frame.count",
        ),
    ),
    _fault(
        "demand-overflows",
        "R-17",
        "Demand above 2^63-1 becomes negative.",
        Edit(
            _PUBLISHER,
            "take",
            "stream.demand = min(stream.demand + frame.count, MAX_LONG)",
            "stream.demand = (stream.demand + frame.count + 2**63) % 2**64 - 2**63",
        ),
    ),
    _fault(
        "initial-demand-ignored",
        "R-05",
        "It ignores the demand in a subscribe.",
        Edit(
            _PUBLISHER,
            "_take_subscribe",
            "self._streams[subscriber_id] = _Stream(frame.initial_demand)",
            "self._streams[subscriber_id] = _Stream(0)",
        ),
    ),
    _fault(
        "request-not-positive",
        "R-16",
        "It ignores a request for none or fewer.",
        Edit(
            _PUBLISHER,
            "Publisher.take",
            "stream is None",
            "stream is None or (isinstance(frame, Request) and frame.count <= 0)",
        ),
    ),
    _fault(
        "initial-demand-negative",
        "R-16",
        "It takes a subscribe with a negative demand.",
        Edit(_PUBLISHER, "_take_subscribe", "frame.initial_demand < 0", "False"),
    ),
    _fault(
        "no-complete",
        "R-15",
        "It does not say that a stream is complete.",
        Edit(
            _PUBLISHER,
            "_finish",
            "self._output.answer(frame)",
            "if isinstance(frame, OnError):\n    self._output.answer(frame)",
        ),
    ),
    _fault(
        "complete-needs-demand",
        "R-18",
        "It says that a stream is complete only once more elements are asked for.",
        Edit(_PUBLISHING, "look", "self.at_end()", "False"),
        Edit(_PUBLISHING, "listen", "self.at_end()", "False"),
    ),
    _fault(
        "ends-twice",
        "R-08",
        "It says each end of a stream twice.",
        Edit(
            _PUBLISHER,
            "_finish",
            "self._output.answer(frame)",
            "self._output.answer(frame)\nself._output.answer(frame)",
        ),
    ),
    _fault(
        "element-after-end",
        "R-08",
        "It sends one more element behind the end of a stream.",
        Edit(
            _PUBLISHER,
            "_finish",
            "self._output.answer(frame)",
            """
            self._output.answer(frame)
            self._output.write(OnNext(frame.subscriber_id, bytes(stream.size)), {frame.subscriber_id: stream.size})
            """,
        ),
    ),
    _fault(
        "cancel-ignored",
        "R-15",
        "It goes on with a stream that was cancelled.",
        Edit(_PUBLISHER, "Publisher.take", "stream is None", "stream is None or isinstance(frame, Cancel)"),
    ),
    _fault(
        "late-request-closes",
        "R-15",
        "It closes when a request or a cancel comes for a stream that is over.",
        Edit(
            _PUBLISHER,
            "Publisher.take",
            "if stream is None:\n    return None",
            "if stream is None:\n    raise UnexpectedFrame('unknown_id', 'no such stream')",
        ),
    ),
    _fault(
        "error-text-lost",
        "R-34",
        "Its errors have no text.",
        Edit(_PUBLISHER, "error", "cut_text(text, self._output.limits.max_text)", "''"),
    ),
    _fault(
        "error-as-complete",
        "R-14",
        "It says that a stream is complete whose source has failed.",
        Edit(
            _PUBLISHER,
            "error",
            "OnError(subscriber_id, cut_text(text, self._output.limits.max_text))",
            "OnComplete(subscriber_id)",
        ),
    ),
    _fault(
        "unknown-name-taken",
        "R-14",
        "It takes a subscription to a name that it does not publish, and sends nothing.",
        Edit(
            "transports/tolliver/_streams/streams.py",
            "_on_subscribe",
            """self.hub.error(*key, f"nothing is published here as {name!r:.200} (R-14)")""",
            "self.hub.subscribed(*key, 0)",
        ),
    ),
    _fault(
        "refusal-without-subscribed",
        "R-14",
        "It refuses a subscriber by an error alone, without a subscribed before.",
        Edit(
            _PUBLISHER,
            "_finish",
            "self._output.answer(Subscribed(frame.subscriber_id))",
            "pass",
        ),
    ),
    _fault(
        "subscribed-unsaid",
        "R-19",
        "It sends elements without a subscribed before.",
        Edit(
            _PUBLISHER,
            "Publisher.subscribed",
            "self._output.answer(Subscribed(subscriber_id, element_size))",
            "pass",
        ),
    ),
    _fault(
        "cancelled-unanswered",
        "R-10",
        "It does not answer a subscribe that was cancelled before.",
        Edit(
            _PUBLISHER,
            "Publisher.take",
            "if not stream.answered:\n    self._output.answer(Subscribed(frame.subscriber_id))",
            "",
        ),
    ),
    _fault(
        "duplicate-id-taken",
        "R-13",
        "It takes a subscribe with an id that is active.",
        Edit(_PUBLISHER, "_take_subscribe", "subscriber_id in self._streams", "False"),
    ),
    _fault(
        "sized-with-lengths",
        "R-08",
        "It writes a length before each element of a stream that has an element size.",
        Edit(
            _PUBLISHER,
            "Publisher._write",
            "output, size = self._output, stream.size",
            "output, size = self._output, 0",
        ),
    ),
)

_AS_SUBSCRIBER = (
    _fault(
        "asks-once",
        "R-32",
        "It asks for elements once, and never for more.",
        Edit(_SUBSCRIBER, "request", "self._output.write(Request(subscriber_id, count))", "pass"),
    ),
    _fault(
        "takes-too-many",
        "R-18",
        "It takes more elements than it has asked for.",
        Edit(_SUBSCRIBER, "_count", "stream.received > stream.requested < MAX_LONG", "False"),
    ),
    _fault(
        "too-many-closes",
        "R-18",
        "It closes the connection when more elements come than it has asked for.",
        Edit(
            _SUBSCRIBER,
            "_count",
            "stream.received > stream.requested < MAX_LONG",
            "stream.received > stream.requested < MAX_LONG and stream.clear()",
        ),
        Edit(
            _SUBSCRIBER,
            "_Stream",
            "received: int = 0",
            """
            received: int = 0
            def clear(self):
                raise UnexpectedFrame("too_many", "more elements than were asked for")
            """,
        ),
    ),
    _fault(
        "element-before-subscribed",
        "R-19",
        "It takes elements before the subscribed, and a second subscribed.",
        Edit(
            _SUBSCRIBER,
            "Subscriber.take",
            "turn = SUBSCRIBING[state].get(step)",
            "turn = SUBSCRIBING[state].get(step) or Turn(state, step is Step.ELEMENT)",
        ),
    ),
    _fault(
        "unknown-id-ignored",
        "R-08",
        "It ignores elements for an id that it never used.",
        Edit(_FRAMES, "_read_stream", "self._known is not None and not self._known(subscriber_id)", "False"),
    ),
    _fault(
        "packed-without-size",
        "R-21",
        "It takes packed elements in a stream without an element size for none.",
        Edit(
            _FRAMES,
            "_read_elements",
            "raise self._malformed('not_packable', 'packed elements in a stream without an element size (R-21)')",
            "return (), _varint.read(data, pos)[1]",
        ),
    ),
    _fault(
        "size-believed",
        "R-20",
        "It takes any element size.",
        Edit(_FRAMES, "_read_size", "size > self._limits.max_element", "False"),
    ),
    _fault(
        "bad-text-taken",
        "R-34",
        "It takes a text that is not UTF-8.",
        Edit(_FRAMES, "_read_utf8", "return raw.decode(), pos", "return raw.decode(errors='replace'), pos"),
    ),
)

_CONNECTIONS = (
    _fault(
        "unknown-type-skipped",
        "R-07",
        "It skips a type number that it does not know.",
        Edit(
            _FRAMES,
            "_read_frame",
            """raise self._malformed("unknown_type", f"no frame has the type number {code} (R-07)")""",
            "return self._read_frame(data, pos)",
        ),
    ),
    _fault(
        "split-frame-lost",
        "R-02",
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
        "long-numbers-refused",
        "R-03",
        "It refuses a number that is longer than it needs to be.",
        Edit(
            "tolliver_proto/reactive/_varint.py",
            "read",
            "number > MAX_NUMBER",
            "number > MAX_NUMBER or not byte",
        ),
    ),
    _fault(
        "other-version-taken",
        "R-26",
        "It takes a hello of another version.",
        Edit(_CONNECTION, "_agree", "hello.version != VERSION", "False"),
    ),
    _fault(
        "ends-without-goodbye",
        "R-26",
        "It closes after a fault of its peer, also of another version, without a goodbye.",
        Edit(_CONNECTION, "Connection._end", "signal in (Signal.FAULT, Signal.GOODBYE)", "signal is Signal.GOODBYE"),
    ),
    _fault(
        "hello-not-awaited",
        "R-25",
        "It takes a subscribe before the client's hello.",
        Edit(
            _CONNECTION,
            "Connection._take",
            "step = TRANSITIONS[self.state].get(signal)",
            """
            step = TRANSITIONS[self.state].get(signal)
            if signal is Signal.TRAFFIC and step is None:
                step = TRANSITIONS[State.OPEN][signal]
            """,
        ),
        roles=LISTEN,
    ),
    _fault(
        "second-hello-ignored",
        "R-25",
        "It ignores a second hello.",
        Edit(
            _CONNECTION,
            "Connection._take",
            "step = TRANSITIONS[self.state].get(signal)",
            """
            step = TRANSITIONS[self.state].get(signal)
            if step is None and self.state is State.OPEN:
                return None
            """,
        ),
    ),
    _fault(
        "extensions-refused",
        "R-27",
        "It refuses a hello that announces extensions.",
        Edit(_CONNECTION, "_agree", "hello.version != VERSION", "hello.version != VERSION or hello.extensions"),
    ),
    _fault(
        "goodbye-unanswered",
        "R-28",
        "It closes after a goodbye without one of its own.",
        Edit(_CONNECTION, "Connection._end", "signal in (Signal.FAULT, Signal.GOODBYE)", "signal is Signal.FAULT"),
    ),
    _fault(
        "goodbye-ignored",
        "R-29",
        "It goes on after a goodbye as if none had come.",
        Edit(
            _CONNECTION,
            "Connection._take",
            "signal = _SIGNALS.get(type(frame), Signal.TRAFFIC)",
            """
            if type(frame) is Goodbye:
                return None
            signal = _SIGNALS.get(type(frame), Signal.TRAFFIC)
            """,
        ),
    ),
)

STREAM_FAULTS = (*_AS_PUBLISHER, *_AS_SUBSCRIBER, *_CONNECTIONS)
