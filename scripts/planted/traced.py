"""Bugs of the outbox, ids, acks, dedupe and holds, for traces to see (`--traces`).

No test is named: those of `bugs.py` that lie in the same files are looked for in traces as well.
"""

from __future__ import annotations

from .bug import Bug

_NODE = "tolliver_proto/_node"
_LEDGER, _COMMITS = f"{_NODE}/outboxes/ledger.py", f"{_NODE}/commits/commits.py"
_IDS, _WINDOW = f"{_NODE}/outboxes/ids.py", f"{_NODE}/outboxes/outbox.py"
_SETTLING, _DELIVERING = f"{_NODE}/inboxes/settling.py", f"{_NODE}/inboxes/delivering.py"
_DEDUPE, _INBOX = f"{_NODE}/inboxes/dedupe.py", f"{_NODE}/inboxes/inbox.py"
_BATCH, _PEERS = f"{_NODE}/commits/batch.py", f"{_NODE}/lists/peers.py"
_TRANSMISSION = f"{_NODE}/outboxes/transmission.py"

ASKED = 40  # of all: bounds, order and access are not in the model
FILES = (
    f"{_NODE}/outboxes/",
    f"{_NODE}/inboxes/",
    f"{_NODE}/lists/peers.py",
    f"{_NODE}/commits/",
    f"{_NODE}/message_set.py",
    f"{_NODE}/node.py",
)
"""Files and folders in which the bugs of these five lie."""


def _bug(name: str, file: str, function: str, good: str, bad: str) -> Bug:
    return Bug(name, file, function, good, bad, ())


_ACK = """if delivery.cid in self._context.links and delivery.message.reliable:
    self._commits.ack(self._context.links[delivery.cid], [delivery.message.message_id])"""

BUGS = (
    # The outbox.
    _bug(
        "outbox: a send returns before its commit",
        _LEDGER,
        "hold_receipt",
        "self._commits.batch.tokens.append(receipt)",
        "self._actions.append(Stored([receipt]))",
    ),
    _bug(
        "outbox: a commit that failed is called stored",
        _COMMITS,
        "_fail",
        "self._actions.append(Stored(batch.tokens, error))",
        "self._actions.append(Stored(batch.tokens))",
    ),
    _bug(
        "outbox: rows of a commit that failed are sent",
        _COMMITS,
        "failed",
        "self._fail(batch, error)",
        "self._done[0][1](batch.runs)\nself._fail(batch, error)",
    ),
    _bug(
        "outbox: only the first recipient is stored",
        _BATCH,
        "store",
        "[recipients.ids] * len(messages)",
        "[recipients.ids[:1]] * len(messages)",
    ),
    _bug(
        "outbox: an ack takes all rows between the first and the last",
        _TRANSMISSION,
        "settle",
        "self._commits.batch.put_away.append(RemoveDeliveries(peer.uuid, spans))",
        "self._commits.batch.put_away.append(RemoveDeliveries(peer.uuid, [(1, spans[-1][1])]))",
    ),
    _bug(
        "outbox: a claim of a kept message is not stored",
        _LEDGER,
        "link_kept",
        "self._commits.batch.linked.append((peer, claimed))",
        "pass",
    ),
    _bug(
        "outbox: a message without a recipient is stored for nobody",
        f"{_NODE}/outboxes/sender.py",
        "store",
        "recipients.peers or is_kept",
        "True",
    ),
    # Ids.
    _bug("ids: the last one is given again", _IDS, "take_many", "first = self._next", "first = max(1, self._next - 1)"),
    _bug(
        "ids: a run ends with the first of the next",
        _IDS,
        "take_many",
        "self._next += count",
        "self._next += count - 1",
    ),
    _bug("ids: a block is recorded too short", _IDS, "reserve", "self._passed + RESERVE", "1"),
    _bug(
        "ids: a block that was not stored counts as recorded",
        f"{_NODE}/node.py",
        "_begin_commit",
        'batch.undo["reserve"] = self._ledger.ids.forget_reserve',
        "pass",
    ),
    _bug("ids: those of earlier openings are forgotten", _IDS, "__init__", "_HandedOut(kept)", "_HandedOut()"),
    # Acks.
    _bug(
        "acks: a handler that fails acknowledges",
        _SETTLING,
        "fail",
        'self._counts["failed"] += 1',
        f'self._counts["failed"] += 1\n{_ACK}',
    ),
    _bug(
        "acks: what no handler has begun is acknowledged",
        _SETTLING,
        "let_go",
        'self._counts["withheld"] += 1',
        f'self._counts["withheld"] += 1\n{_ACK}',
    ),
    _bug(
        "acks: a durable one goes before its note",
        _SETTLING,
        "acknowledge",
        "acks.items() if not is_durable else ()",
        "acks.items()",
    ),
    _bug(
        "acks: a copy of what is being handled is acknowledged",
        _DELIVERING,
        "_wait",
        'self._counts["waited" if waits else "withheld"] += 1',
        "self._commits.ack(link, [message.message_id])",
    ),
    _bug(
        "acks: nobody waits for a subscription that comes late",
        _INBOX,
        "__init__",
        "now if given else now + limits.subscription_grace",
        "now",
    ),
    _bug(
        "acks: one settles the oldest message",
        _WINDOW,
        "take_acked",
        "take(wire_id, None)",
        "take(next(iter(self._unacked), wire_id), None)",
    ),
    _bug(
        "acks: the first answers for all messages of a send",
        _LEDGER,
        "tell_watchers",
        "receipt.unacked -= number",
        "receipt.unacked = 0",
    ),
    _bug(
        "acks: a send is answered when it is stored",
        _LEDGER,
        "watch",
        "receipt.failure is not None or not receipt.unacked",
        "True",
    ),
    _bug(
        "acks: one goes out twice",
        _COMMITS,
        "ack",
        "connection.send_acks(message_ids)",
        "connection.send_acks([*message_ids, *message_ids])",
    ),
    _bug(
        "acks: a message is acknowledged when it is handed out",
        _DELIVERING,
        "on_message",
        "inbox.add(delivery)",
        "inbox.add(delivery)\nif message.reliable:\n    self._commits.ack(link, [message.message_id])",
    ),
    # Dedupe.
    _bug(
        "dedupe: copies are not looked up",
        _DEDUPE,
        "find",
        "self._known.find(peer, message_id, checksum)",
        "Known.NOT",
    ),
    _bug(
        "dedupe: what is handed out counts as handled",
        _DEDUPE,
        "begin",
        "self._begun[delivery] = delivery.peer_id, message_id, checksum",
        "self._begun[delivery] = delivery.peer_id, message_id, checksum\n"
        "self._known.add(delivery.peer_id, message_id, checksum)",
    ),
    _bug(
        "dedupe: what was handled is not stored",
        _BATCH,
        "all_operations",
        "operations.append(RememberHandled(self.handled, dedupe))",
        "pass",
    ),
    _bug(
        "dedupe: a copy is handed out before the first is stored as handled",
        _DEDUPE,
        "is_storing",
        "(peer, message_id, checksum) in self._storing",
        "False",
    ),
    _bug("dedupe: a copy of what is being handled is handed out", _INBOX, "find", "held.message == message", "False"),
    _bug(
        "dedupe: every call is overdue at once",
        _DELIVERING,
        "_hands_out_again",
        "self._credit.is_overdue(held)",
        "True",
    ),
    # Holds.
    _bug(
        "holds: they end at once",
        _PEERS,
        "_set_peer_list",
        "self._context.now + (hold or _ALWAYS_HOLD)",
        "self._context.now",
    ),
    _bug("holds: they are not stored", _BATCH, "all_operations", "tuple(peer.lists.held)", "()"),
    _bug(
        "holds: their end gives up what is listed, too",
        _PEERS,
        "is_given_up",
        "not (wanted or leaves or ended.isdisjoint(pairs))",
        "not leaves",
    ),
    _bug(
        "holds: an unsubscribe ends all of them",
        _PEERS,
        "_removed_by",
        "removed_by([said])",
        "peer.lists.subscriptions.union(peer.lists.held)",
    ),
    _bug(
        "holds: a restart forgets them",
        _PEERS,
        "load",
        "{one: now + self._policy.unsubscribed_hold - age for one, age in known.held.items()}",
        "{}",
    ),
    _bug(
        "holds: what waits in memory is sent",
        _TRANSMISSION,
        "pump",
        "peer.lists.kept_back and peer.lists.holds(run[0].channel, run[0].key)",
        "False",
    ),
    _bug(
        "holds: a later list begins them anew, and an earlier one is lost",
        _PEERS,
        "_set_peer_list",
        "peer.lists.subscriptions.union(before) - subscriptions",
        "peer.lists.subscriptions - subscriptions",
    ),
)
