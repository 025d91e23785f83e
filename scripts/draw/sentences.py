"""Sentences of the three drafts in their order: what each has become here, by which ruling, and which test shows it.

A sentence has its number in its draft. Those that ask for something are quoted where the asking is, the others by their
first words; a sentence that asks for several things has a row for each. The text of the drafts is not part of this
project.
"""

from __future__ import annotations

from typing import NamedTuple

WIRE, NODE, STREAMS = "tests/wire/test_", "tests/node/", "tests/reactive/test_"
NOTHING = "asks for nothing"


class Sentence(NamedTuple):
    """A sentence, or the part of one that asks for something.

    `here` begins with "kept", "**changed**" or NOTHING; the latter has neither ruling nor test.
    """

    said: str
    here: str = NOTHING
    rulings: str = ""
    """Ids, with a space between."""
    test: str = ""
    drafts: tuple[int, ...] = (1, 2)
    """Drafts that have it: 1 and 2 are of messages, 3 of streams."""
    goes_on: bool = False
    """True if this is a further part of the sentence before."""


TABLE = f"{WIRE}versions.py::test_the_table"
BOTH_WAYS = f"{WIRE}vectors.py::test_read_whole_and_byte_by_byte"
STREAM_FRAMES = f"{STREAMS}vectors.py::test_both_directions"

MESSAGES = (
    Sentence("My thinking for the handshake is that we want to allow the option for backwards compatibility"),
    Sentence(
        "the initial request contains the version number of the first party, the response gives there version number "
        "and a status code",
        "kept: a response has the version of its sender",
        "T-60",
        TABLE,
    ),
    Sentence("0 - same versions, so handshake success", "kept", "T-60", TABLE),
    Sentence("1 - newer protocol version but support backwards compatibility so success", "kept", "T-60", TABLE),
    Sentence(
        "2 - newer protocol version no backwards compatibility so failure",
        "kept",
        "T-60",
        f"{WIRE}versions.py::test_by_default_no_other_version_is_spoken",
    ),
    Sentence(
        "3 - older protocol version so await final message",
        "kept",
        "T-60 T-64",
        f"{WIRE}connection.py::test_a_server_says_nothing_between_its_response_and_the_final",
    ),
    Sentence(
        "This is the only case where a handshake final message will occur",
        "kept",
        "T-60",
        f"{WIRE}connection.py::test_a_client_hands_out_the_response_before_established",
    ),
    Sentence(
        "On a failure, the party which found the failure sends the message with the error code and closes the "
        "connection",
        "kept; what has no code closes without a frame",
        "T-60 T-67",
        f"{WIRE}versions.py::test_a_refusing_server_closes_first_and_only_after_its_answer_is_written",
    ),
    Sentence(
        "Once the handshake is a success both parties begin waiting for other messages",
        "kept",
        "T-63 T-64",
        f"{WIRE}connection.py::test_the_first_frame_of_a_server_must_be_a_request",
    ),
    Sentence(
        "The server must process the subscriptions of the incoming connection synchronously before responding",
        "kept; **changed**: what a newer list lacks is held for a while",
        "T-61 T-30",
        f"{NODE}links/test_connecting.py::test_the_list_is_stored_before_the_response_and_routes_before_that",
    ),
    Sentence(
        "no messages should be sent on a connection until the handshake is complete",
        "kept",
        "T-64",
        f"{WIRE}connection.py::test_a_server_says_nothing_between_its_response_and_the_final",
        goes_on=True,
    ),
    Sentence(
        "new message sending should be blocked while a new connection is being established such that all new messages "
        "are sent to even recent remotes",
        "**changed**: sending goes on, and a new remote gets all that was sent since it was asked for, within 20 s",
        "T-62",
        f"{NODE}outboxes/test_windows.py::test_what_is_sent_from_the_call_on_reaches_a_new_remote",
        goes_on=True,
    ),
    Sentence("Handshake req code 0, format: 8 byte big endian u64 tolliver version", "kept", "T-01 T-02", BOTH_WAYS),
    Sentence(
        "16 bytes instance UUID(v7)",
        "**changed**: ours are, of others any is taken",
        "T-03",
        f"{WIRE}connection.py::test_strict_uuid7",
        goes_on=True,
    ),
    Sentence(
        "4 bytes big endian u32 number of subscriptions",
        "**changed**: at most 10,000, and 1 MiB",
        "T-08",
        f"{WIRE}limits.py::test_a_count_whose_entries_cannot_fit_is_refused_at_the_count",
        goes_on=True,
    ),
    Sentence(
        "the subscriptions using the same format as for the subscription and unsubscription messages",
        "**changed**: without draft 2's code byte",
        "T-04",
        f"{WIRE}vectors.py::test_the_revisions_agree_on_all_but_finals_and_control_bodies",
        goes_on=True,
    ),
    Sentence(
        "Handshake res code 1, format: 8 byte big endian u64 tolliver version 16 bytes instance UUID(v7) 1 byte status "
        "code",
        "kept; UUID, count and list as in a request",
        "T-01 T-60",
        BOTH_WAYS,
    ),
    Sentence(
        "Handshake final code 2, format: status code 0 for backwards compatibility, 1 for failure",
        "kept, in draft 1",
        "C1",
        f"{WIRE}versions.py::test_every_final_but_one_is_a_failure",
        drafts=(1,),
    ),
    Sentence(
        "Handshake final code 2, format: status code 1 for backwards compatibility, 2 for failure (to match response "
        "codes)",
        "kept, in draft 2",
        "C1",
        f"{WIRE}versions.py::test_every_final_but_one_is_a_failure",
        drafts=(2,),
    ),
    Sentence(
        "if a handshake req message is received on an existing connection responses should be sent as normal",
        "kept; **changed** after three at once: one a second",
        "T-66",
        f"{WIRE}connection.py::test_a_repeated_request_is_answered_as_normal",
        drafts=(2,),
    ),
    Sentence(
        "If unexpected handshake response or final messages are received they should simply be ignored",
        "kept, in their turn",
        "T-65 T-63",
        f"{WIRE}connection.py::test_they_are_ignored_before_the_handshake_is_over_too",
        drafts=(2,),
    ),
    Sentence(
        'regular information messages with no key on the reserved "tolliver" channel',
        "kept",
        "T-23 T-27",
        f"{NODE}inboxes/test_receiving.py::test_subscriptions_of_a_peer_change_by_control_messages",
    ),
    Sentence(
        "the API for tolliver should forbid this channel from being used by application level messages",
        "kept",
        "T-27",
        f"{NODE}inboxes/test_receiving.py::test_the_reserved_channel_is_refused_everywhere",
        goes_on=True,
    ),
    Sentence(
        "The body of the message will have the format of 4 bytes big endian u32 channel name length",
        "**changed** for unsubscribing, which draft 1 cannot tell from subscribing",
        "T-21",
        f"{NODE}inboxes/test_receiving.py::test_draft_1_cannot_unsubscribe_on_the_wire",
        drafts=(1,),
    ),
    Sentence(
        "1 byte code - 0 for sub 1 for unsub",
        "kept; lengths must fit the body, another code is ignored and acknowledged",
        "C2 T-20 T-12",
        f"{NODE}inboxes/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",
        drafts=(2,),
    ),
    Sentence(
        "Regular message code 3, format: 4 bytes big endian u32 channel name length - 4 bytes big endian u32 key name "
        "length",
        "**changed**: names of at most 4096 bytes",
        "T-07",
        f"{WIRE}limits.py::test_refused_when_the_head_is_in_and_not_before",
    ),
    Sentence(
        "max message size is 2gb",
        "**changed**: 16 MiB, unless the limits say more",
        "T-06",
        f"{WIRE}limits.py::test_the_defaults_are_those_of_the_rulings",
        goes_on=True,
    ),
    Sentence(
        "local message id (taken from the database, should be set as 2^31 -1 for an unreliable message)",
        "kept; another id can be set for a peer",
        "T-40 T-42",
        f"{WIRE}connection.py::test_an_unreliable_id_holds_in_both_directions",
        goes_on=True,
    ),
    Sentence(
        "UTF-8 encoded channel name - UTF-8 encoded key name - message body",
        "kept; what is not UTF-8 is acknowledged and not delivered",
        "T-10 T-11",
        f"{NODE}inboxes/test_receiving.py::test_what_cannot_be_understood_is_acknowledged",
        goes_on=True,
    ),
    Sentence(
        "General acknowledgment code 4, format: 4 bytes big endian u32 id of acknowledged message",
        "kept; an ack that fits nothing is ignored",
        "T-01 T-44",
        BOTH_WAYS,
    ),
    Sentence(
        "The receiver sends an ack once per received message",
        "**changed**: once it is handled",
        "T-45 T-46 T-47",
        f"{NODE}inboxes/test_receiving.py::test_every_copy_is_handed_out_and_acknowledged",
        drafts=(2,),
    ),
    Sentence(
        "pass the message to the application level code each time",
        "**changed** while a handler is at it",
        "T-48",
        f"{NODE}inboxes/test_handling.py::test_a_copy_waits_for_what_is_being_handled_and_shares_its_answer",
        drafts=(2,),
        goes_on=True,
    ),
    Sentence(
        "resend their message at any interval they see fit until they have received the ack",
        "kept; **changed** for control messages, which are synchronised, and for one that the peer refuses for its "
        "size",
        "T-50 T-29 T-09",
        f"{NODE}outboxes/test_sending.py::test_resending_waits_doubles_and_jitters",
        drafts=(2,),
    ),
    Sentence("API for the tolliver library (As much planning for me as anything)", drafts=(1,)),
    Sentence(
        "createInstance(options) returns a new tolliver instance based on the supplied options",
        "kept",
        "C5 T-75",
        "tests/adapters/test_instance.py",
        drafts=(1,),
    ),
    Sentence("methods on the tolliver instance", drafts=(1,)),
    Sentence(
        "connect to a given host and try to perform the tolliver handshake",
        "kept",
        "T-73",
        f"{NODE}links/test_connecting.py::test_a_remote_leads_to_its_peer_whoever_has_dialled",
        drafts=(1,),
    ),
    Sentence(
        "blocks indefinitely trying (and retrying) to create a TLS connection",
        "kept; a `timeout` is an option",
        "T-73",
        f"{NODE}links/test_connecting.py::test_redials_back_off_with_full_jitter",
        drafts=(1,),
    ),
    Sentence(
        "only returns an error if the tolliver handshake fails or the TLS handshake fails due to incorrect "
        "certificates",
        "kept; **changed** where a peer ends the handshake without an answer: it may be restarting",
        "T-73",
        f"{NODE}links/test_connecting.py::test_an_answer_that_is_no_handshake_ends_a_dial_that_is_not_kept_up",
        drafts=(1,),
    ),
    Sentence(
        "remove a remote from the connection pool of the instance",
        "kept",
        "T-77",
        f"{NODE}links/test_connecting.py::test_a_dropped_connection_is_dialled_again_until_disconnect",
        drafts=(1,),
    ),
    Sentence(
        "These methods write the relevant information to the database and make one attempt to complete the action",
        "kept; **changed** for UnreliableSend, which writes nothing",
        "T-54 T-55 T-31",
        f"{NODE}outboxes/test_sending.py::test_unreliable_is_dropped_over_high_water_and_never_stored",
        drafts=(1,),
    ),
    Sentence(
        "registers a callback function on a specific channel key pair",
        "kept; **changed**: an empty name is a wildcard, and all that match are called",
        "T-57 T-24",
        f"{NODE}inboxes/test_receiving.py::test_all_matching_handlers_one_run_each",
        drafts=(1,),
    ),
)
"""Of the two drafts of the messaging protocol."""

_THIRD = (
    Sentence("Status: this is a rough draft"),
    Sentence("Message framing will use protobuf", "**changed**: its primitives, without tags", "R-02", STREAM_FRAMES),
    Sentence("The full complexity of protobuf may not be needed today"),
    Sentence(
        "an implementation might use a protobuf description of the published messages to decode both the framing and "
        "the messages using the same parser",
        "**changed**: not possible without tags",
        "R-02 R-08",
        f"{STREAMS}vectors.py::test_decode_remembers_the_sizes_that_pass",
    ),
    Sentence(
        "A message frame begins with a message type, which is a varint, followed by its contents",
        "kept; the drafts give no numbers",
        "R-01 R-07",
        f"{STREAMS}decoding.py::test_unknown_type",
    ),
    Sentence("Some messages are size-delimited, others are fixed-size", "kept", "R-08", STREAM_FRAMES),
    Sentence(
        "An `Id` is a varint",
        "kept",
        "R-03 R-04",
        f"{STREAMS}roundtrip.py::test_numbers_are_those_of_protobuf",
    ),
    Sentence(
        "The protocol is versioned and supports future extensions",
        "kept",
        "R-27 R-06",
        f"{STREAMS}connection.py::test_an_extension_that_both_sides_have",
    ),
    Sentence(
        "the side that opened the connection) and the server do a loose handshake",
        "kept",
        "R-25",
        f"{STREAMS}connection.py::test_the_client_says_hello_first_and_may_go_on",
    ),
    Sentence("clientHello(version: varint, extensions: List[Id])", "kept", "R-06 R-27", STREAM_FRAMES),
    Sentence("serverHello(version: varint, extensions: List[Id])", "kept", "R-06 R-27", STREAM_FRAMES),
    Sentence(
        "the server doesn't have to wait for the `clientHello` before sending its `serverHello`",
        "kept, by an option",
        "R-25",
        f"{STREAMS}connection.py::test_an_eager_server_says_hello_once_and_nothing_else",
    ),
    Sentence(
        "The protocol version is currently version 0",
        "kept",
        "R-06",
        f"{STREAMS}rulings.py::test_the_version_is_a_varint",
    ),
    Sentence(
        "If either side receives a hello message with a version it doesn't support, it MUST send a `goodbye` message "
        "and close the connection",
        "kept",
        "R-26",
        f"{STREAMS}connection.py::test_another_version",
    ),
    Sentence(
        "it MUST send a `goodbye` message",
        "kept: its reason reaches who dialled",
        "R-25",
        f"{STREAMS}connection.py::test_a_goodbye_for_a_hello_is_a_refusal",
        goes_on=True,
    ),
    Sentence(
        "The transport mapping (e.g. HTTP Content-Type, or TCP port number) SHOULD change in future versions",
        "kept: the ALPN has the version in its name",
        "R-35",
        f"{STREAMS}connection.py::test_transport_mapping",
    ),
    Sentence(
        "Extension to the protocol specify optional or future behaviors", "kept", "R-27", f"{STREAMS}connection.py"
    ),
    Sentence(
        "that message MUST NOT be sent before receiving a hello from the other side confirming that it supports that "
        "extension",
        "kept",
        "R-27",
        f"{STREAMS}connection.py::test_an_extension_that_the_peer_does_not_have",
    ),
    Sentence(
        "the modified behavior MUST be negotiated by at least one of the parties sending, and the other acknowledging, "
        "a message",
        "kept: an extension has a hook for it",
        "R-27",
        f"{STREAMS}connection.py::test_an_extension_that_changes_a_message_of_the_draft",
    ),
    Sentence(
        "SHOULD NOT send messages whose semantics are modified by it before this negotiation is completed",
        "kept, by the extension",
        "R-27",
        f"{STREAMS}connection.py::test_an_extension_that_changes_a_message_of_the_draft",
    ),
    Sentence(
        "The client can optimistically send more messages after the `clientHello` without waiting for the "
        "`serverHello`",
        "kept",
        "R-25",
        f"{STREAMS}connection.py::test_the_client_says_hello_first_and_may_go_on",
    ),
    Sentence(
        "it must consider that its messages were discarded",
        "kept: each stream ends",
        "R-26",
        f"{STREAMS}connection.py::test_another_version",
    ),
    Sentence(
        "if a server multiple versions (e.g. both version 0 and some future version 1), it must wait for the "
        "`clientHello`",
        "kept: a server waits unless it is told not to",
        "R-25 R-26",
        f"{STREAMS}connection.py::test_a_first_frame_that_is_no_hello",
    ),
    Sentence("Let type Id = varint", "kept", "R-03", f"{STREAMS}roundtrip.py::test_numbers_are_those_of_protobuf"),
    Sentence("The basic RS signalling is:"),
    Sentence(
        "subscribe(publisher: String, subscriber: Id, initialDemand: Long = 0)",
        "kept; the default is the API's",
        "R-05 R-04",
        f"{STREAMS}rulings.py::test_defaults_are_on_the_wire",
    ),
    Sentence(
        "request(subscriber: Id, demand: Long)",
        "kept; one below 1 ends the stream",
        "R-16 R-17",
        f"{STREAMS}publisher.py::test_a_request_of_nothing",
    ),
    Sentence("cancel(subscriber: Id)", "kept", "R-15", f"{STREAMS}publisher.py::test_a_cancel_ends_it_at_once"),
    Sentence(
        "subscribed(subscriber: Id, elementSize: varint = 0)",
        "kept: one for each subscribe",
        "R-05 R-10 R-14",
        f"{STREAMS}publisher.py::test_a_refusal",
    ),
    Sentence(
        "onNext(subscriber: Id, element: bytes)",
        "kept; an element is never split",
        "R-19 R-33",
        f"{STREAMS}rulings.py::test_an_element_of_the_limit_is_one_frame",
    ),
    Sentence("onComplete(subscriber: Id)", "kept", "R-15 R-11", STREAM_FRAMES),
    Sentence(
        "onError(subscriber: Id, error: String)",
        "**changed**: texts are bounded",
        "R-34",
        f"{STREAMS}publisher.py::test_error_texts_are_cut_on_a_character",
    ),
    Sentence(
        "The protocol is fully bidirectional; either party can act in the `-->` direction",
        "kept",
        "R-11",
        f"{STREAMS}rulings.py::test_both_sides_publish_on_the_same_id",
    ),
    Sentence(
        "The semantics for ordering and asynchronous delivery are the same as in the Reactive Streams specification",
        "kept",
        "R-15 R-16 R-18",
        f"{STREAMS}rules.py",
    ),
    Sentence(
        "the subscriber Id identifies the recipient in all messages going <-- this way",
        "kept",
        "R-11",
        f"{STREAMS}rulings.py::test_both_sides_publish_on_the_same_id",
    ),
    Sentence(
        "This id is generated by the subscriber and sent in the `subscribe` message",
        "kept; one that is active ends the connection",
        "R-11 R-13",
        f"{STREAMS}publisher.py::test_an_id_that_is_active",
    ),
    Sentence(
        "The publisher String needs to be parsed by the recipient",
        "kept: the program answers or refuses it",
        "R-14",
        f"{STREAMS}publisher.py::test_a_refusal",
    ),
    Sentence(
        "The field `subscribed.elementSize`, if nonzero, indicates the fixed size of the elements",
        "**changed**: sizes are bounded",
        "R-20 R-24",
        f"{STREAMS}publisher.py::test_an_element_of_the_wrong_size",
    ),
    Sentence(
        "In fixed-size mode, the `onNext.element` field is not length-prefixed",
        "kept",
        "R-08",
        f"{STREAMS}publisher.py::test_elements_of_a_fixed_size_are_packed",
    ),
    Sentence("This saves space when the messages are very small"),
    Sentence(
        "After a subscription is closed, its Id can be reused",
        "kept",
        "R-12 R-09",
        f"{STREAMS}subscriber.py::test_the_lowest_id_that_has_ended_comes_next",
    ),
    Sentence(
        "The subscriber MAY reuse an Id in a `subscribe` message after it has sent `cancel` or received `onComplete` "
        "or `onError`",
        "kept",
        "R-12 R-10",
        f"{STREAMS}subscriber.py::test_cancelled_ids_come_last",
    ),
    Sentence(
        "it MUST guarantee that the publisher will not receive messages meant for the previous subscription with that "
        "Id",
        "kept, in the other direction too",
        "R-10",
        f"{STREAMS}subscriber.py::test_an_id_that_is_used_again",
    ),
    Sentence("In typical use, the most common messages by far are `onNext`"),
    Sentence(
        "The overhead per message is typically 1 byte", "kept: so there is no room for tags", "R-02", STREAM_FRAMES
    ),
    Sentence("When the message type is very small (e.g. an int), this overhead can be greater"),
    Sentence(
        "the publisher can optionally declare that all stream elements will have a fixed size",
        "kept",
        "R-20",
        f"{STREAMS}publisher.py::test_elements_of_a_fixed_size_are_packed",
    ),
    Sentence("subscribed(subscriber: Id, elementSize: varint)", "kept", "R-05", STREAM_FRAMES),
    Sentence(
        "The publisher can then send not just `onNext` messages but also `onNextPacked` messages",
        "kept; never an empty one",
        "R-21 R-22",
        f"{STREAMS}subscriber.py::test_an_empty_pack",
    ),
    Sentence(
        "onNextPacked(subscriber: Id, count: varint, messages: count * elementSize bytes)",
        "kept; a long one is handed out in parts",
        "R-23",
        f"{STREAMS}too_long.py::test_a_long_packed_frame_that_is_wanted_is_handed_out_in_parts",
    ),
    Sentence("Packing does not help if new data becomes available very frequently"),
    Sentence("A typical example is a ticker source"),
    Sentence(
        "It also can't be done if the client doesn't provide enough demand",
        "kept; **changed**: such a frame ends the stream, whole",
        "R-18",
        f"{STREAMS}subscriber.py::test_more_elements_than_demand",
    ),
    Sentence(
        "both sides should release all related resources",
        "kept",
        "R-30",
        f"{STREAMS}connection.py::test_the_end_without_a_goodbye",
    ),
    Sentence(
        "This protocol version does not specify reusing previously negotiated state after reconnecting",
        "kept",
        "R-31",
        f"{STREAMS}connection.py::test_nothing_is_resumed",
    ),
    Sentence(
        "send a `goodbye` message, wait for acknowledgement and then close the underlying connection",
        "kept; **changed** after 5 s without one",
        "R-28",
        f"{STREAMS}connection.py::test_a_goodbye_that_is_not_answered",
    ),
    Sentence("goodbye(reason: String)", "kept: the answer is a goodbye, too", "R-28 R-34", STREAM_FRAMES),
    Sentence(
        "Sending `goodbye` implicitly closes all open streams, equivalently to receiving `cancel` or `onError` "
        "messages",
        "kept",
        "R-29",
        f"{STREAMS}connection.py::test_our_goodbye",
    ),
)
OF_STREAMS = tuple(sentence._replace(drafts=(3,)) for sentence in _THIRD)
"""Of the draft of Reactive Streams over a network."""
