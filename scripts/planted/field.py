"""Bugs in what keeps a node in the field well: strikes, dials, duels, crowds.

The idea: restarts, clones and silent ends are usual there, and each rule is one comparison that could be forgotten.
"""

from __future__ import annotations

from .bug import Bug

EXPOSURE_PART = "tolliver_proto/_node/outboxes/suspicion.py"
CONNECT_WAIT = "tolliver_proto/_node/outboxes/connect_wait.py"
LINKS = "tolliver_proto/_node/links/links.py"
DIALING_PART = "tolliver_proto/_node/links/dialing.py"
DUELS_PART = "tolliver_proto/_node/links/duels.py"
HANDSHAKES_PART = "tolliver_proto/_node/links/handshakes.py"
LEDGER = "tolliver_proto/_node/outboxes/ledger.py"
PEERS = "tolliver_proto/_node/lists/peers.py"
KEEPING_PART = "tolliver_proto/_node/outboxes/connect_windows.py"
OUTBOX = "tolliver_proto/_node/outboxes/outbox.py"
CONNECTING = "tests/node/links/test_connecting.py::"
DUELLING = "tests/node/links/test_duels.py::"
DROPS = "tolliver_proto/_node/notices.py"
SILENT = "tests/node/outboxes/test_connect_wait.py::"
WINDOWS = "tests/node/outboxes/test_windows.py::"
STRIKES = "tests/node/outboxes/test_strikes.py::"
HOLDING = "tests/node/lists/test_holds.py::"
ONCE = "tests/cli/test_once.py::"
COMMANDS = "transports/tolliver/_cli/connecting.py"
FIELD = ("tests/node/test_answers.py::test_nodes_in_the_field",)

BUGS = (
    Bug(
        "what another connection wants is sent on the live one, which drops it",
        "tolliver_proto/_node/link.py",
        "keep_back",
        "link.lists.told if link is not None else self.subscriptions",
        "self.subscriptions",
        (HOLDING + "test_what_only_another_connection_wants_is_not_sent_on_the_live_one",),
    ),
    Bug(
        "what is stored while a hold ends goes before what was held",
        OUTBOX,
        "committed",
        "self._loaded_to >= outbox.last_seq and not self.lists_under_way",
        "self._loaded_to >= outbox.last_seq",
        (HOLDING + "test_a_message_that_is_being_stored_when_a_hold_ends_comes_after_what_was_held",),
    ),
    Bug(
        "what another subscription matches stays held until the next connection",
        "tolliver_proto/_node/link.py",
        "keep_back",
        "before != (self.served, self.kept_back)",
        "before[1] != self.kept_back",
        (HOLDING + "test_another_subscription_that_matches_it_releases_it",),
    ),
    Bug(
        "what was claimed by a list that is not stored is claimed for ever",
        KEEPING_PART,
        "disclaim",
        "self.excluded.remove(peer)",
        "",
        (CONNECTING + "test_what_one_connection_claimed_goes_over_the_other_where_it_was_not_stored",),
    ),
    Bug(
        "of two lists that are not stored the first one stands",
        PEERS,
        "restore_lists",
        "peer in self._commits.batch.peer_lists or now != before or peer.lists.held.keys() != held.keys()",
        "now != before or peer.lists.held.keys() != held.keys()",
        (HOLDING + "test_of_two_lists_that_are_not_stored_the_one_before_both_stands",),
    ),
    Bug(
        "what waits before a parked message that is retried is passed over",
        OUTBOX,
        "go_back",
        "message.seq <= seq",
        "False",
        (STRIKES + "test_what_waits_before_a_parked_one_that_is_retried_is_not_passed_over",),
    ),
    Bug(
        "an answer comes before its acks",
        LEDGER,
        "watch",
        "told or not receipt.unacked",
        "True",
        FIELD,
    ),
    Bug(
        "what a newer list lacks is routed no more",
        PEERS,
        "_set_peer_list",
        "(lacking - removed if hold else always) | always",
        "always",
        FIELD,
    ),
    Bug(
        "what was held for a forgotten peer is told as unsubscribed",
        HANDSHAKES_PART,
        "_forget_all_of",
        (
            "\n"
            "        self._peer_lists.hold(peer, {})\n"
            "        self._peer_lists.route_to(peer, peer.lists.subscriptions)\n"
            "        "
        ),
        "self._peer_lists.route_to(peer, peer.lists.subscriptions.union(peer.lists.held))",
        (HOLDING + "test_forgetting_the_peer_ends_it",),
    ),
    Bug(
        "control messages go to a peer that dies of them",
        "tolliver_proto/_node/link.py",
        "sync",
        "self.mute",
        "False",
        ("tests/node/lists/test_mute.py::test_a_peer_that_dies_of_control_messages_is_sent_none",),
    ),
    Bug(
        "idle sockets keep a good peer out",
        "tolliver_proto/_common/connection_table.py",
        "new_cid",
        "full is not None and (silent := self._limiter.silent(address, self._state.now)) is not None",
        "False",
        ("tests/node/links/test_access.py::test_the_oldest_silent_one_of_an_address_makes_room",),
    ),
    Bug(
        "who is in the middle of a handshake makes room",
        "tolliver_proto/_common/connection_table.py",
        "receive_data",
        "self._limiter.heard(cid)",
        "",
        ("tests/node/links/test_access.py::test_the_oldest_silent_one_of_an_address_makes_room",),
    ),
    Bug(
        "each message that is dropped is told",
        DROPS,
        "add",
        "counts is None",
        "True",
        ("tests/node/inboxes/test_dropped_messages.py::test_what_nobody_wants_is_told_at_once_and_then_by_the_minute",),
    ),
    Bug(
        "what is dropped is counted by names without end",
        DROPS,
        "add",
        "shown in counts or len(counts) < _NAMED",
        "True",
        ("tests/node/inboxes/test_dropped_messages.py::test_each_peer_has_its_own_sum_and_only_so_many_names",),
    ),
    Bug(
        "clones replace each other for ever",
        DUELS_PART,
        "is_due",
        "len(self._replaced) == _REPLACED and now - self._replaced[0] < _WITHIN",
        "False",
        (DUELLING + "test_the_older_one_stays_if_it_answers",),
    ),
    Bug(
        "a newer connection waits for ever",
        HANDSHAKES_PART,
        "_stands_back",
        'self._timers.set(("duel", peer.uuid), self._context.now + ANSWER_WITHIN)',
        "",
        (DUELLING + "test_the_newer_one_is_taken_if_no_answer_comes_in_five_seconds",),
    ),
    Bug(
        "a clone is taken though the older one has answered",
        DUELS_PART,
        "shut",
        "self._shut_until = now + _SHUT_FOR",
        "",
        (DUELLING + "test_for_a_minute_no_newer_one_is_taken_unless_the_older_one_ends",),
    ),
    Bug(
        "pauses grow though messages get through",
        DIALING_PART,
        "ended",
        "fruitful or (up_since is not None and now - up_since >= _STEADY)",
        "up_since is not None and now - up_since >= _STEADY",
        (CONNECTING + "test_after_an_acknowledgement_the_pauses_begin_anew",),
    ),
    Bug(
        "a line that breaks has the whole window again",
        OUTBOX,
        "__init__",
        "max(outbox.proved, _SMALL)",
        "limits.window_bytes",
        ("tests/node/test_lines.py::test_a_line_that_passes_little_at_a_time_passes_all_in_time",),
    ),
    Bug(
        "dials have no bound",
        DIALING_PART,
        "_dial_in",
        "max(seconds, dialled.bucket.pause(now))",
        "seconds",
        (CONNECTING + "test_a_remote_is_dialled_once_in_two_seconds_and_five_times_in_a_burst",),
    ),
    Bug(
        "sends wait until a silent remote is closed",
        KEEPING_PART,
        "wait_no_more",
        "window.holds_up = False",
        "pass",
        (SILENT + "test_no_send_waits_for_a_connection_that_is_being_closed",),
    ),
    Bug(
        "sends wait for a silent remote at each try",
        KEEPING_PART,
        "lose",
        "self._failed[_whom(link)] = None",
        "",
        (SILENT + "test_a_silent_remote_holds_up_sends_for_one_handshake_in_all",),
    ),
    Bug(
        "what is kept for a remote that failed has no bound",
        KEEPING_PART,
        "close_full",
        "self._is_full(one) and not one.holds_up",
        "False",
        (SILENT + "test_what_is_sent_is_still_kept_for_it_up_to_its_share",),
    ),
    Bug(
        "what is kept for remotes that were never up has no bound",
        KEEPING_PART,
        "close_full",
        "self.size >= _SHARES * self._share",
        "False",
        (WINDOWS + "test_all_windows_together_keep_four_shares_of_distinct_messages",),
    ),
    Bug(
        "a window ends with the first dial that fails",
        "tolliver_proto/_node/outboxes/connect_wait.py",
        "lose",
        "self.stop_keeping(link)",
        "self.stop_keeping(link, link.remote)",
        (WINDOWS + "test_what_is_sent_from_the_call_on_reaches_a_new_remote",),
    ),
    Bug(
        "a window delays the answer of what had recipients",
        LEDGER,
        "release",
        "self.tell_watchers(seq, seq)",
        "pass",
        (WINDOWS + "test_a_window_delays_no_answer_of_a_send_that_had_recipients",),
    ),
    Bug(
        "what a window lets go is answered as acknowledged",
        CONNECT_WAIT,
        "_tell_unowned",
        "receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, 1)",
        "pass",
        (WINDOWS + "test_a_window_lasts_for_twenty_seconds_from_the_call",),
    ),
    Bug(
        "an end long after a message is a strike",
        EXPOSURE_PART,
        "_forget_old",
        "self._taken.popleft()",
        "break",
        (STRIKES + "test_a_program_that_is_restarted_while_its_handler_works_refuses_nothing",),
    ),
    Bug(
        "an end after an ack is a strike",
        EXPOSURE_PART,
        "acked",
        "self._taken.clear()",
        "",
        (STRIKES + "test_an_end_soon_after_another_was_acknowledged_is_no_strike",),
    ),
    Bug(
        "a suspected head goes as soon as the peer is up",
        "tolliver_proto/_node/outboxes/transmission.py",
        "up",
        "sending.window.deferred = True",
        "",
        (STRIKES + "test_a_program_that_starts_again_and_again_refuses_nothing",),
    ),
    Bug(
        "a one-off send is a second instance beside that of its certificate",
        COMMANDS,
        "once",
        "not prefixes",
        "False",
        (ONCE + "test_under_an_instances_certificate_it_refuses_and_says_why",),
    ),
    Bug(
        "two one-off sends are one instance",
        COMMANDS,
        "once",
        "token_hex(16)",
        "'once'",
        (ONCE + "test_with_a_certificate_for_many_senders_each_run_is_one_of_its_own",),
    ),
    Bug(
        "a remote that was up is waited for no more, as it failed once",
        KEEPING_PART,
        "regain",
        "self._failed.pop(_whom(link), None)",
        "pass",
        (SILENT + "test_a_remote_that_has_been_up_is_waited_for_again",),
    ),
)
