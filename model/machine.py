"""The model's actions over the steps of real nodes: a trace is accepted, or its first wrong step is named.

The model has one sender, one receiver and a few messages; a trace has several nodes, each both, and many. So a state
here is a dict of nodes, and an action looks at the parts of it that its step names. An action is a function with the
name that it has in Tolliver.tla: `need` states its guards, the rest its effects. `STEPS` says which actions a step of a
trace is. Nothing of the product is used: what a node believes is not in a trace, and not asked for.

What a trace has and the model has not: many rows in one commit, subscriptions as lists, dead letters, rows that are set
aside, quotas, messages kept for a peer that is connecting, frames without an id. Each has as much of a rule here as its
promise needs. A process that dies between a commit and its fsync, doubtful rows and keys of sends are in the model
alone: the simulator's store commits and syncs in one step, and has no keys.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

Step = dict[str, Any]
Entry = tuple[str, str]
Key = tuple[str, int, int]  # sender, id, message

SLACK = 1.0  # seconds by which two clocks of one step may differ
PROBE, NO_ID = "tolliver.probe", 2**31 - 1


class Refused(Exception):
    """A step that the model does not allow."""


def need(condition: object, promise: str, why: str) -> None:
    """State a guard: `promise` is what breaks without it. Raises Refused."""
    if not condition:
        raise Refused(f"{promise}: {why}")


class Row:
    """One message of a sender: `to` are those that are owed it, `all` those that ever were."""

    def __init__(self, step: Step) -> None:
        self.seq, self.id, self.message = int(step["seq"]), int(step["id"]), int(step["message"])
        self.entry: Entry = (step["entry"][0], step["entry"][1])
        self.to = {str(one) for one in step["to"]}
        self.all, self.count = set(self.to), len(self.to)
        self.kept = bool(step.get("kept"))


class Database:
    """Content of a database on disk."""

    def __init__(self, contents: Step) -> None:
        self.rows = {row.seq: row for row in map(Row, contents["rows"])}
        self.lists = {peer: (_entries(listed), _entries(held)) for peer, (listed, held) in contents["lists"].items()}
        self.own = _entries(contents["own"])
        self.notes: dict[Key, None] = dict.fromkeys((peer, number, name) for peer, number, name in contents["notes"])
        self.ids: list[tuple[int, int]] = [(first, count) for first, count in contents["ids"]]
        self.letters: set[Key] = set()
        self.aside: set[tuple[str, int]] = set()

    def shown(self) -> tuple[object, ...]:
        """Content as an opening reads it."""
        rows = {row.seq: (row.id, row.message, row.to) for row in self.rows.values() if row.to}
        return rows, {peer: lists for peer, lists in self.lists.items() if any(lists)}, self.own, [*self.notes]


class Link:
    """One end of a connection. `out` are frames that the other end has not read yet."""

    def __init__(self) -> None:
        self.out: deque[tuple[object, ...]] = deque()
        self.other: Link | None = None
        self.peer: str | None = None
        self.told: set[Entry] = set()
        self.came: dict[int, tuple[int, Entry]] = {}
        self.owes: Counter[int] = Counter()  # answers, by id
        self.is_over = False
        self.to = ""
        self.last: dict[tuple[object, ...], float] = {}  # when each frame was sent last


class Node:
    """A node, and its database."""

    def __init__(self) -> None:
        self.uuid, self.up = "", False
        self.database = Database({"rows": [], "lists": {}, "own": [], "notes": [], "ids": []})
        self.written: Step | None = None
        self.restored: Step | None = None
        self.since: dict[tuple[str, Entry], tuple[float, float]] = {}  # when a hold began: in the world, by its clock
        self.learnt = 0
        self.committed = 0  # the number of the last commit that was written or refused in this life
        self.given: dict[int, int] = {}  # the message of each id
        self.history: dict[int, Row] = {}
        self.begin({})

    def begin(self, opening: Step) -> None:
        """Forget what goes with a process."""
        self.opening = opening
        self.since = {
            hold: (at, opening.get("clock", at)) for hold, (at, _) in self.since.items()
        }  # its clock begins anew
        self.batch: dict[int, list[Row]] = {}
        self.links: dict[int, Link] = {}
        self.calls: dict[int, list[int]] = {}
        self.returned: dict[int, Step] = {}
        self.told: set[int] = set()
        self.acked: set[tuple[str, int]] = set()
        self.inbox: Counter[Key] = Counter()
        self.handed: dict[Key, float] = {}
        self.begun: set[tuple[int, Key]] = set()  # handed out since their sender was forgotten last
        self.known: set[Key] = set(self.database.notes)
        self.handled: set[Key] = set()
        self.left: set[Entry] = set()  # entries that the program does not want any more
        self.ended: set[Entry] = set()  # the same, and those that it wants again
        self.by_id = {row.id: row for row in self.database.rows.values()}  # on disk in this life, or now
        self.older = [*self.database.ids]
        self.last_seq = max(self.history, default=0)
        self.unsaid: set[tuple[str, Entry]] = set()
        self.forgotten: set[str] = set()
        self.dropped: set[str] = set()


class State:
    """All nodes, and what an observer writes down."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.uuids: set[str] = set()
        self.sent: set[tuple[str, int]] = set()  # messages that programs gave to `send`, by sender
        self.settled: set[tuple[str, str, int]] = set()  # receiver, sender, message: handled, or refused for a reason


def _entries(listed: Iterable[Iterable[str]]) -> set[Entry]:
    return {(channel, key) for channel, key in listed}


def _matching(entry: Entry) -> set[Entry]:
    return {entry, (entry[0], ""), ("", entry[1]), ("", "")}


def _spans(spans: Iterable[tuple[int, int]]) -> Iterable[int]:
    for first, last in spans:
        yield from range(first, last + 1)


def _in(number: int, spans: Iterable[tuple[int, int]]) -> bool:
    circle = 2**31 - 2
    return any((number - first) % circle < count for first, count in spans)


# The sender: calls of `send`, and their commit.


def Call(state: State, node: Node, step: Step) -> None:
    if step["receipt"]:
        need(step["receipt"] not in node.calls, "Send", "one call was made twice")
        node.calls[step["receipt"]] = step["messages"]
    state.sent.update((node.uuid, one) for one in step["messages"])


def Send(state: State, node: Node, step: Step) -> None:
    row = Row(step)
    need(node.learnt == node.committed, "Send", f"commit {node.committed} is under way")
    need((node.uuid, row.message) in state.sent, "Send", f"no program has sent message {row.message}")
    need(row.seq > node.last_seq, "Send", f"row {row.seq} after row {node.last_seq}")
    waiting = [one for rows in node.batch.values() for one in rows]
    live = {one.id for one in node.database.rows.values() if one.to or one.kept}.union(one.id for one in waiting)
    need(row.id not in live, "IdsAreOne", f"id {row.id} has a delivery (T-40)")
    need(node.given.get(row.id, row.message) == row.message, "IdsAreOne", f"id {row.id} had another message")
    need(not _in(row.id, node.older), "IdsAreOne", f"id {row.id} is of an earlier opening")
    need(row.to or row.kept, "RefusedIsNowhere", f"row {row.seq} is for nobody")
    node.batch.setdefault(step["commit"], []).append(row)
    node.last_seq = row.seq


def _begin(node: Node, step: Step) -> None:
    is_over = node.written is None and node.learnt == node.committed
    need(is_over, "Write", f"commit {node.committed} is under way")
    need(step["commit"] > node.committed, "Write", f"commit {step['commit']} after commit {node.committed}")


def Write(state: State, node: Node, step: Step) -> None:
    _begin(node, step)
    need(all(one >= step["commit"] for one in node.batch), "Write", "rows of an earlier commit are missing")
    for change in step["changes"]:
        if change[0] in GUARDS:
            GUARDS[change[0]](state, node, step, *change[1:])
    stored = [seq for change in step["changes"] if change[0] == "rows" for seq in change[1]]
    rows = node.batch.get(step["commit"], [])
    need(stored == [row.seq for row in rows], "Write", f"the commit has rows {stored}, and not those of its sends")
    reserved = [*node.database.ids, *((one[1], one[2]) for one in step["changes"] if one[0] == "ids")]
    for row in rows:
        need(_in(row.id, reserved), "IdsAreOne", f"id {row.id} is not reserved on disk")
    node.committed = step["commit"]
    node.written = step


def Sync(state: State, node: Node, step: Step) -> None:
    need(node.written is not None and node.written["commit"] == step["commit"], "Sync", "that commit is not written")
    _land(state, node)


def _land(state: State, node: Node) -> None:
    """The last written commit is on disk, or outlives its process."""
    written, node.written = node.written, None
    for change in written["changes"] if written else ():
        if change[0] == "rows":
            for row in node.batch.pop(written["commit"]) if written else ():
                node.database.rows[row.seq] = node.history[row.seq] = row
                node.given[row.id], node.by_id[row.id] = row.message, row
        elif change[0] in EFFECTS:
            EFFECTS[change[0]](node, *change[1:])
            if change[0] == "letter":
                state.settled.add((node.uuid, change[1], change[3]))


def Learn(_state: State, node: Node, step: Step) -> None:
    """The node hears of the fsync."""
    is_next = step["commit"] == node.committed and node.learnt < node.committed
    need(is_next and node.written is None, "Return", f"commit {step['commit']} is not on disk")
    node.learnt = node.committed


def Return(_state: State, node: Node, step: Step) -> None:
    messages = node.calls.get(step["receipt"])
    need(messages is not None, "Return", "no call waits for that")
    need(step["receipt"] not in node.returned, "Return", "it was told before")
    assert messages is not None
    node.returned[step["receipt"]] = step
    first, last = step["rows"]
    rows = [node.history[seq] for seq in range(first, last + 1) if seq in node.history]
    if step["error"] is not None:
        gone = {row.message for row in node.database.rows.values()}
        need(gone.isdisjoint(messages), "RefusedIsNowhere", "what was called refused is stored")
        return
    need(len(rows) == last + 1 - first, "NothingIsLost", f"rows {first} to {last} are called stored, and not on disk")
    stored = [row.message for row in rows]
    need(not (Counter(stored) - Counter(messages)), "Return", "its rows are not its messages")
    owed = sum(row.count for row in rows)
    need(owed == sum(step["counts"]), "NothingIsLost", f"not {owed} deliveries are stored")
    nobody = len(messages) - len({row.seq for row in rows if row.all or row.kept})
    need(step["undelivered"] >= nobody, "NothingIsLost", f"{nobody} messages are for nobody, and that is not told")


def Refuse(_state: State, node: Node, step: Step) -> None:
    _begin(node, step)
    node.committed = node.learnt = step["commit"]
    node.batch.pop(step["commit"], None)


# The sender: rows go out, acknowledgements come in.


def _link(node: Node, step: Step) -> Link:
    link = node.links.get(step["cid"])
    need(link is not None and not link.is_over, "Connect", f"there is no connection {step['cid']}")
    assert link is not None
    return link


def _what(step: Step) -> tuple[object, ...]:
    return tuple(str(step.get(name)) for name in ("frame", "id", "message", "wanted", "entry", "entries", "peer"))


def _put(node: Node, step: Step) -> Link:
    link, what = _link(node, step), _what(step)
    if step.get("id") is not None and step["frame"] != "ack":
        last = link.last.get(what, -node.opening["retry"])
        is_early = step["clock"] < last + node.opening["retry"] - 0.01
        need(not is_early, "Transmit", f"id {step['id']} is sent again too early (T-50)")
        link.last[what] = step["clock"]
    link.out.append(what)
    return link


def _take(node: Node, step: Step) -> Link:
    link = _link(node, step)
    need(link.other is not None and link.other.out, "Receive", "nothing was sent")
    assert link.other is not None
    need(link.other.out.popleft() == _what(step), "Receive", "another frame was sent before it")
    return link


def Transmit(_state: State, node: Node, step: Step) -> None:
    link = _put(node, step)
    if step["id"] is None or step["entry"][0] == PROBE:
        return
    need(link.peer is not None, "Transmit", "the peer is unknown")
    row = node.by_id.get(step["id"])
    need(row is not None and link.peer in row.all, "SentIsOnDisk", f"no row on disk has id {step['id']} for that peer")
    assert row is not None
    need(row.message == step["message"], "IdsAreOne", f"id {step['id']} has another message on disk")
    need((link.peer, row.seq) not in node.database.aside, "Transmit", f"id {row.id} is set aside")
    listed, held = node.database.lists.get(str(link.peer), (set(), set()))
    names = _matching(row.entry)
    need((listed | link.told) & names or not held & names, "Transmit", f"id {row.id} is held")


def GetAck(_state: State, node: Node, step: Step) -> None:
    link = _take(node, step)
    for row in node.database.rows.values():
        if row.id == step["id"] and link.peer in row.to:
            node.acked.add((str(link.peer), row.seq))


def Told(state: State, node: Node, step: Step) -> None:
    """The program hears what became of a send: an answer is true."""
    need(step["receipt"] in node.returned, "Return", "it was not called stored before")
    need(step["receipt"] not in node.told, "Return", "it was told before")
    node.told.add(step["receipt"])
    if step["error"] is not None:
        return
    first, last = step["rows"]
    for seq in range(first, last + 1):
        row = node.history.get(seq)
        for peer in row.all & state.uuids if row else ():
            assert row is not None
            is_true = (peer, node.uuid, row.message) in state.settled
            need(is_true, "AcknowledgedIsHandled", f"{peer} has not handled row {seq}")


def HoldEnds(state: State, node: Node, step: Step, peer: str, spans: list[tuple[int, int]]) -> None:
    """Rows leave the outbox: acknowledged, or given up for a reason."""
    heard = {change[1] for change in step["changes"] if change[0] == "list"}
    for seq in _spans(spans):
        row = node.database.rows.get(seq)
        if row is None or peer not in row.to or (peer, seq) in node.acked or peer not in state.uuids:
            continue
        listed, held = node.database.lists.get(peer, (set(), set()))
        told = {one for change in step["changes"] if change[0] == "list" for one in _entries((*change[2], *change[3]))}
        is_wanted = (told if peer in heard else listed | held) & _matching(row.entry)
        is_excused = (
            peer in node.forgotten or (peer in node.dropped and (peer, seq) in node.database.aside)
        ) or node.opening["drops"]
        need(not is_wanted or is_excused, "NothingIsLost", f"row {seq} leaves without an ack of {peer}")


def _gone(_state: State, node: Node, step: Step, spans: list[tuple[int, int]]) -> None:
    taken = {(change[1], seq) for change in step["changes"] if change[0] == "take" for seq in _spans(change[2])}
    for seq in _spans(spans):
        row = node.database.rows.get(seq)
        left = {peer for peer in row.to if (peer, seq) not in taken} if row else set()
        need(not left, "NothingIsLost", f"row {seq} is removed, and owed to {', '.join(left)}")


def Release(_state: State, _node: Node, _step: Step) -> None:
    need(False, "Release", "the simulator has no doubtful rows")


# The lives of a process, sender and receiver.


def Kill(state: State, node: Node, _step: Step) -> None:
    need(node.up, "Kill", "it is not up")
    _land(state, node)
    node.up = False


def RKill(_state: State, node: Node, _step: Step) -> None:
    node.begin({})


def PowerLoss(_state: State, node: Node, _step: Step) -> None:
    need(node.up, "PowerLoss", "it is not up")
    node.written, node.up = None, False


RPowerLoss = RKill


def TakeCopy(_state: State, _node: Node, _step: Step) -> None:
    """A copy is taken beside the node: its contents are seen when it is put back."""


RTakeCopy = TakeCopy


def Restore(_state: State, node: Node, step: Step) -> None:
    need(not node.up, "Restore", "it is up")
    need(node.restored != step["database"], "Restore", "it was put back before")
    node.restored = step["database"]
    node.database = Database(step["database"])
    node.history, node.given = dict(node.database.rows), {}
    long_ago = float("-inf"), float("-inf")
    node.since = {(peer, one): long_ago for peer, (_, held) in node.database.lists.items() for one in held}


def RRestore(_state: State, node: Node, _step: Step) -> None:
    node.begin({})


def Open(state: State, node: Node, step: Step) -> None:
    need(not node.up, "Open", "it is up")
    need(Database(step["database"]).shown() == node.database.shown(), "NothingIsLost", "another database is opened")
    node.up, node.uuid, node.restored = True, step["uuid"], None
    node.database.rows = {seq: row for seq, row in node.database.rows.items() if row.to}
    state.uuids.add(node.uuid)


def ROpen(_state: State, node: Node, step: Step) -> None:
    node.committed = node.learnt = 0
    node.begin(step)


# The connection.


def Join(state: State, node: Node, step: Step) -> None:
    need(step["cid"] not in node.links, "Connect", "there is such a connection")
    name, cid = step["to"]
    link = node.links[step["cid"]] = Link()
    link.to = name
    other = state.nodes[name].links.get(cid) if name in state.nodes else None
    if other is not None:
        link.other, other.other = other, link


def Connect(_state: State, node: Node, step: Step) -> None:
    link = _take(node, step)
    need(link.peer is None, "Connect", "a second handshake")
    link.peer, link.told = step["peer"], _entries(step["entries"])
    _may_hold(node, step, link)


def _may_hold(node: Node, step: Step, link: Link) -> None:
    """The hold of what the connection does not list may begin now, also of what was listed and is not stored yet."""
    others = [one.told for one in node.links.values() if one.peer == link.peer]
    for entry in set[Entry]().union(*node.database.lists.get(str(link.peer), ()), *others) - link.told:
        node.since.setdefault((str(link.peer), entry), (step["at"], step["clock"]))


def Listing(_state: State, node: Node, step: Step, peer: str, listed: list[Entry], held: list[Entry]) -> None:
    """A list of a peer is stored: what it lacks is held, unless there is a reason."""
    before = set[Entry]().union(*node.database.lists.get(peer, ()))
    now = step["at"], step["clock"]
    for entry in before - _entries(listed) - _entries(held):
        began = node.since.get((peer, entry), now)
        is_over = any(one >= since + node.opening["hold"] - SLACK for one, since in zip(now, began, strict=True))
        is_said = (peer, entry) in node.unsaid or peer in node.forgotten or not node.opening["unsubscribes"]
        need(is_over or is_said, "NothingIsLost", f"{entry} of {peer} is not held")
    for entry in _entries(held):
        node.since.setdefault((peer, entry), now)


def Say(_state: State, node: Node, step: Step) -> None:
    _put(node, step)


def Hear(_state: State, node: Node, step: Step) -> None:
    link = _take(node, step)
    if step["frame"] == "control":
        entry = (step["entry"][0], step["entry"][1])
        (link.told.add if step["wanted"] else link.told.discard)(entry)
        (node.unsaid.discard if step["wanted"] else node.unsaid.add)((str(link.peer), entry))
        if step["id"] is not None:
            link.owes[step["id"]] += 1


def Cut(_state: State, node: Node, step: Step) -> None:
    link = _link(node, step)
    link.is_over, link.told = True, set()
    _may_hold(node, step, link)
    if link.other is not None:
        Drop(link.other)


def Drop(link: Link) -> None:
    """Frames on their way to an end that is gone never come."""
    link.out.clear()


# The receiver.


def Receive(_state: State, node: Node, step: Step) -> None:
    link = _take(node, step)
    if step["id"] is not None:
        entry = (step["entry"][0], step["entry"][1])
        link.came[step["id"]] = step["message"], entry
        link.owes[step["id"]] += 1


def HandOut(_state: State, node: Node, step: Step) -> None:
    """A message comes to a handler: the part of Receive in which it enters the inbox."""
    link = node.links.get(step["cid"], Link())  # it may be over
    key = (step["peer"], step["id"], step["message"])
    need(link.came.get(step["id"], (None,))[0] == step["message"], "Receive", f"id {step['id']} has not come")
    if node.opening["dedupe"]:
        need(key not in node.known, "EffectsHappenOnce", f"id {step['id']} was handled before")
    if node.inbox[key] and any(one[1] == key for one in node.begun):
        is_overdue = step["clock"] >= node.handed[key] + (node.opening["timeout"] or float("inf")) - SLACK
        need(is_overdue, "EffectsHappenOnce", f"id {step['id']} is being handled")
    node.inbox[key] += 1
    node.handed[key] = step["clock"]
    node.begun.add((step["cid"], key))


def Handle(state: State, node: Node, step: Step) -> None:
    key = (step["peer"], step["id"], step["message"])
    need(node.inbox[key] > 0, "Handle", f"no handler has id {step['id']}")
    node.inbox[key] -= 1
    node.handled.add(key)
    if (step["cid"], key) in node.begun:
        node.known.add(key)
    state.settled.add((node.uuid, step["peer"], step["message"]))


def Fail(_state: State, node: Node, step: Step) -> None:
    key = (step["peer"], step["id"], step["message"])
    need(node.inbox[key] > 0, "Fail", f"no handler has id {step['id']}")
    node.inbox[key] -= 1


def Settle(state: State, node: Node, step: Step) -> None:
    """An answer goes out: of a handler whose note is on disk, of a copy, or of what nobody here wants."""
    link, number = _put(node, step), step["id"]
    if number == NO_ID:
        return  # of a probe
    need(link.owes[number] > 0, "Settle", f"id {number} is answered and has not come")
    link.owes[number] -= 1
    if number not in link.came or link.came[number][1][0] == PROBE:
        return
    message, entry = link.came[number]
    key = (str(link.peer), number, message)
    notes = node.database.notes if node.opening["durable"] else node.known
    if key in node.database.letters or key in (notes if node.opening["dedupe"] else node.handled):
        return
    if link.peer in node.forgotten and key in node.handled:
        return  # it was asked to forget that, and may not have done so yet
    GraceEnds(node, step["clock"], number, entry)
    state.settled.add((node.uuid, str(link.peer), message))


def GraceEnds(node: Node, clock: float, number: int, entry: Entry) -> None:
    wanted = (node.database.own - node.left) & _matching(entry)
    need(not wanted, "AcknowledgedIsHandled", f"id {number} is answered, and no handler has succeeded")
    is_over = clock >= node.opening["clock"] + node.opening["grace"] - SLACK or node.ended & _matching(entry)
    need(is_over, "AcknowledgedIsHandled", f"id {number} is answered before its subscription may come (T-46)")


def Forget(node: Node, peer: str) -> None:
    """The notes of a peer go with it."""
    database = node.database
    for row in database.rows.values():
        row.to.discard(peer)
    database.lists.pop(peer, None)
    database.notes = {key: None for key in database.notes if key[0] != peer}
    node.known = {key for key in node.known if key[0] != peer}  # also of what was handled meanwhile


def Forgets(_state: State, node: Node, step: Step) -> None:
    node.forgotten.add(step["peer"])
    node.known = {key for key in node.known if key[0] != step["peer"]}
    node.begun = {one for one in node.begun if one[1][0] != step["peer"]}


def Drops(_state: State, node: Node, step: Step) -> None:
    node.dropped.add(step["peer"])


def Leaves(_state: State, node: Node, step: Step) -> None:
    for known in (node.left, node.ended):
        known.add((step["entry"][0], step["entry"][1]))


def Subscribe(node: Node, is_wanted: bool, entry: list[str]) -> None:
    """The receiver wants a channel, or does not any more."""
    one = (entry[0], entry[1])
    (node.database.own.add if is_wanted else node.database.own.discard)(one)
    if is_wanted:
        node.left.discard(one)


def End(state: State, _node: Node, _step: Step) -> None:
    """Nothing is owed at the end, but what is held or set aside, and every call has its answer."""
    for node in state.nodes.values():
        for row in node.database.rows.values() if node.up else ():
            for peer in row.to & state.uuids:
                listed = node.database.lists.get(peer, (set(), set()))[0]
                is_owed = (peer, row.seq) not in node.acked | node.database.aside and listed & _matching(row.entry)
                need(not is_owed, "NothingIsLost", f"row {row.seq} never came to {peer}")
        owing = [seq for seq, row in node.database.rows.items() if row.to or row.kept]
        for number, told in node.returned.items() if node.up else ():
            is_open = told["error"] or any(told["rows"][0] <= seq <= told["rows"][1] for seq in owing)
            need(is_open or number in node.told, "Told", f"what became of call {number} was never told")
        waiting = node.calls.keys() - node.returned.keys() if node.up else ()
        need(not waiting, "Return", f"calls {[*waiting]} were never answered")
        live = Counter(link.to for link in node.links.values() if not link.is_over)
        need(not node.up or all(count == 1 for count in live.values()), "Cut", "the end of a connection is missing")


# Changes of a database: their guards, and their effects.


def _guard_note(_state: State, node: Node, _step: Step, notes: list[Key], _keep: int) -> None:
    for peer, number, name in notes:
        need((peer, number, name) in node.handled, "AcknowledgedIsHandled", f"id {number} is noted and not handled")


def _guard_forget(_state: State, node: Node, _step: Step, peer: str) -> None:
    need(peer in node.forgotten, "Forget", f"nobody has asked to forget {peer}")


def _guard_heard(_state: State, node: Node, _step: Step, peer: str, is_wanted: bool, entry: list[str]) -> None:
    if not is_wanted:
        need((peer, (entry[0], entry[1])) in node.unsaid, "NothingIsLost", f"{peer} has not unsubscribed from {entry}")


Guard = Callable[..., None]
GUARDS: dict[str, Guard] = {
    "take": HoldEnds,
    "drop": _gone,
    "list": Listing,
    "hear": _guard_heard,
    "note": _guard_note,
    "forget": _guard_forget,
}


def _give(node: Node, peer: str, seqs: list[int]) -> None:
    for seq in seqs:
        node.database.rows[seq].to.add(peer)
        node.database.rows[seq].all.add(peer)


def _take_out(node: Node, peer: str, spans: list[tuple[int, int]]) -> None:
    for seq in _spans(spans):
        if seq in node.database.rows:
            node.database.rows[seq].to.discard(peer)
        node.database.aside.discard((peer, seq))


def _drop(node: Node, spans: list[tuple[int, int]]) -> None:
    for seq in _spans(spans):
        node.database.rows.pop(seq, None)


def _set_list(node: Node, peer: str, listed: list[Entry], held: list[Entry]) -> None:
    node.database.lists[peer] = _entries(listed), _entries(held)
    told = [link.told for link in node.links.values() if link.peer == peer and not link.is_over]
    for entry in _entries(listed).intersection(*told) if told else ():  # else a connection lacked it while this waited
        node.since.pop((peer, entry), None)


def _heard(node: Node, peer: str, is_wanted: bool, entry: list[str]) -> None:
    listed, held = node.database.lists.setdefault(peer, (set(), set()))
    one = (entry[0], entry[1])
    (listed.add if is_wanted else listed.discard)(one)
    node.since.pop((peer, one), None)
    held.discard(one)


def _note(node: Node, notes: list[Key], keep: int) -> None:
    for peer, number, name in notes:
        node.database.notes[peer, number, name] = None
    for key in [*node.database.notes][:-keep]:
        del node.database.notes[key]


def _ids(node: Node, first: int, count: int, keep: int) -> None:
    if node.database.ids and node.database.ids[-1][0] == first:
        node.database.ids.pop()
    node.database.ids = [*node.database.ids, (first, count)][-keep:]


EFFECTS: dict[str, Guard] = {
    "give": _give,
    "take": _take_out,
    "drop": _drop,
    "park": lambda node, peer, spans: node.database.aside.update((peer, seq) for seq in _spans(spans)),
    "unpark": lambda node, peer, spans: node.database.aside.difference_update((peer, seq) for seq in _spans(spans)),
    "list": _set_list,
    "hear": _heard,
    "own": Subscribe,
    "forget": Forget,
    "letter": lambda node, peer, number, name: node.database.letters.add((peer, number, name)),
    "note": _note,
    "ids": _ids,
}

STEPS: dict[str, tuple[Callable[[State, Node, Step], None], ...]] = {
    **{
        one.__name__: (one,)
        for one in (Call, Send, Write, Sync, Learn, Return, Refuse, Transmit, GetAck, Told, Release, Join)
    },
    **{one.__name__: (one,) for one in (Connect, Say, Hear, Cut, Receive, HandOut, Handle, Fail, Settle, Forgets)},
    **{one.__name__: (one,) for one in (Drops, Leaves, End)},
    "Kill": (Kill, RKill),
    "PowerLoss": (PowerLoss, RPowerLoss),
    "TakeCopy": (TakeCopy, RTakeCopy),
    "Restore": (Restore, RRestore),
    "Open": (Open, ROpen),
}
_DOWN = {"Open", "Restore", "End"}


def accept(steps: Iterable[Step], *, whole: bool = True) -> int:
    """Take a trace; returns the number of its steps. With `whole` it must have each step up to its end. Raises Refused
    with the first step that no action allows.
    """
    state, number, missing = State(), 0, ""
    for number, step in enumerate(steps, 1):
        try:
            node = state.nodes.setdefault(step["node"], Node()) if step["do"] != "End" else Node()
            need(step["do"] in STEPS, step["do"], "there is no such step")
            need(node.up or step["do"] in _DOWN, step["do"], "the process is not up")
            for action in STEPS[step["do"]]:
                action(state, node, step)
            if step["step"] != number and not missing:
                missing = f"step {number}: {step['do']}: the trace is not whole: its number is {step['step']}"
        except Refused as refused:
            raise Refused(f"step {number}: {step['do']} of {step.get('node', 'the run')}: {refused}") from refused
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Refused(f"step {number}: this is no step of a trace: {error!r}") from error
    if missing:
        raise Refused(missing)
    if whole and not number:
        raise Refused("the trace has no step")
    if whole and step["do"] != "End":
        raise Refused(f"step {number}: the trace ends before its end")
    return number
