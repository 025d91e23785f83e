"""Bugs to be planted: what a good test must see (PROOF, "Planted bugs").

The idea: a bug is data, a place in the source and what stands there instead. The place must be there exactly once, so a
change of the source that moves it makes the bug fail loudly instead of planting nothing.
"""

from __future__ import annotations

from typing import NamedTuple

NODE = ("tests/node",)
STORE = ("tests/store",)
WIRE = ("tests/wire",)
REACTIVE = ("tests/reactive",)


class Bug(NamedTuple):
    name: str
    file: str
    good: str
    bad: str
    tests: tuple[str, ...] = NODE


BUGS = (
    Bug(
        "ack before handler",
        "tolliver_proto/_receiving.py",
        "        if self._is_spent(link):\n            link.spent = True\n",
        "        self._ack(link, [message_id] if message_id is not None else [])\n"
        "        if self._is_spent(link):\n            link.spent = True\n",
    ),
    Bug(
        "delivery row removed when sent instead of when acked",
        "tolliver_proto/_sending.py",
        "            room -= len(frame)\n",
        "            room -= len(frame)\n"
        "            self._batch.removals.append(RemoveDeliveries(peer.uuid, [(message.seq, message.seq)]))\n",
    ),
    Bug(
        "send before commit",
        "tolliver_proto/_storing.py",
        "        self._running = (self._last_batch, batch)\n",
        "        self._running = (self._last_batch, batch)\n"
        "        for recipients, messages in batch.runs:\n"
        "            for peer in recipients.peers:\n"
        "                self._committed_for(peer, messages)\n",
    ),
    Bug(
        "synchronous NORMAL",
        "transports/tolliver_transports/_sqlite_file.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        STORE,
    ),
    Bug(
        "no CRC",
        "transports/tolliver_transports/_sqlite.py",
        "if stored_id == wire_id and crc == _checksum(seq, wire_id, channel, key, body):",
        "if stored_id == wire_id:",
        STORE,
    ),
    Bug(
        "no CRC of dead letters",
        "transports/tolliver_transports/_sqlite.py",
        "good = crc == letter_check(content, peer, attempts, failed_at)",
        "good = True",
        STORE,
    ),
    Bug(
        "ack keyed by id only",
        "tolliver_proto/_receiving.py",
        "        found = link.window.acked(ack.message_id) if link.window is not None else None\n",
        "        windows = [one.window for one in self._up.values() if one.window is not None]\n"
        "        all_found = [window.acked(ack.message_id) for window in windows]\n"
        "        found = next((one for one in all_found if one is not None), None)\n",
    ),
    Bug(
        "replace becomes add",
        "tolliver_proto/_handshakes.py",
        "self._hear(link, ReplacePeerSubscriptions(peer.uuid, wanted))",
        "self._hear(link, ReplacePeerSubscriptions(peer.uuid, (*wanted, *peer.subscriptions)))",
    ),
    Bug(
        "unsub resent stale",
        "tolliver_proto/_link.py",
        "if told == wanted or subscription in self._under_way or not",
        "if told == wanted or not",
    ),
    Bug(
        "wrap onto a live id",
        "tolliver_proto/_ids.py",
        "            free = self.live.next_free(start)\n",
        "            free = start\n",
    ),
    Bug(
        "id 2^31-1 allocated",
        "tolliver_proto/_ids.py",
        "LAST_ID = 2**31 - 2",
        "LAST_ID = 2**31 - 1",
    ),
    Bug(
        "2^32-1 not acked",
        "tolliver_proto/_frames.py",
        "None if message_id == unreliable else message_id",
        "None if message_id in (unreliable, 2**32 - 1) else message_id",
        (*WIRE, *NODE),
    ),
    Bug(
        "list applied on failed handshake",
        "tolliver_proto/_handshakes.py",
        "        if frame.compatible:\n            self._store_list(link, link.held_list)\n",
        "        self._store_list(link, link.held_list)\n",
    ),
    Bug(
        "list applied although the versions do not fit",
        "tolliver_proto/_handshakes.py",
        "            self._accept(link)  # says so and closes; the list is discarded (T-61)\n",
        "            _peer(link).voices[link] = None\n"
        "            self._hear(link, ReplacePeerSubscriptions(_peer(link).uuid, frame.subscriptions))\n"
        "            self._batch.lists[_peer(link)] = None\n"
        "            self._accept(link)\n",
    ),
    Bug(
        "response before subscriptions",
        "tolliver_proto/_handshakes.py",
        "        batch.handshakes.append(link)\n",
        "        batch.handshakes.append(link)\n"
        "        if _connection(link).state in HOLDING:\n"
        "            self._accept(link)\n",
    ),
    Bug(
        "message sent during the dial lost",
        "tolliver_proto/_sending.py",
        "        self._release(spans_of(left), left)\n        self._unblock()\n        return taken\n",
        "        self._release(spans_of(left), left)\n        self._unblock()\n        return []\n",
    ),
    Bug(
        "first wins among duplicates",
        "tolliver_proto/_handshakes.py",
        "        return self._dialled_by(old) < self._dialled_by(new)\n",
        "        return True\n",
    ),
    Bug(
        "first wins among duplicates of one direction",
        "tolliver_proto/_handshakes.py",
        "        if old.role is new.role or self._now - old.up_since > self.limits.duel_window:\n"
        "            return False\n",
        "        if old.role is new.role or self._now - old.up_since > self.limits.duel_window:\n"
        "            return True\n",
    ),
    Bug(
        "both duplicates closed",
        "tolliver_proto/_handshakes.py",
        "            self._end(loser)\n",
        "            self._end(loser)\n            self._end(old if loser is link else link)\n",
    ),
    Bug(
        "resend out of order",
        "tolliver_proto/_outbox.py",
        "        for row in rows:\n            if row.seq in self.outbox.leaving",
        "        for row in reversed(rows):\n            if row.seq in self.outbox.leaving",
    ),
    Bug(
        "resend while still buffered",
        "tolliver_proto/_sending.py",
        "            link.gathered.append(message.wire_id)\n            room",
        "            link.gathered.append(message.wire_id)\n"
        "            window.transmitted([message.wire_id], (), self._now)\n            room",
    ),
    Bug(
        "wildcard matches the reserved channel",
        "tolliver_proto/_sending.py",
        "        if channel in PRIVATE_CHANNELS:\n            raise ReservedChannel(",
        "        if channel in ():\n            raise ReservedChannel(",
    ),
    Bug(
        "final codes swapped",
        "tolliver_proto/_layouts.py",
        "finals=MappingProxyType({True: 1, False: 2})",
        "finals=MappingProxyType({True: 2, False: 1})",
        WIRE,
    ),
    Bug(
        "status 2 continues",
        "tolliver_proto/_state.py",
        "        Signal.REFUSE: _OVER,\n",
        "        Signal.REFUSE: Transition(_S.AGREED, _E.NONE),\n",
        WIRE,
    ),
    # What came with upkeep.
    Bug(
        "a copy acknowledged before its original",
        "tolliver_proto/_receiving.py",
        '            self._counts["withheld"] += 1\n            return False\n',
        '            self._counts["withheld"] += 1\n'
        "            self._ack(link, [message_id])\n            return False\n",
    ),
    Bug(
        "handled, durably, before it is stored",
        "tolliver_proto/_receiving.py",
        "        self._batch.handled.append((peer, message_id))\n",
        "        self._batch.handled.append((peer, message_id))\n        self._handled.add(peer, message_id)\n",
    ),
    Bug(
        "a dead letter acknowledged before it is stored",
        "tolliver_proto/_receiving.py",
        "        self._batch.letters.append((link, letter))\n",
        "        self._batch.letters.append((link, letter))\n        self._ack(link, [message_id])\n",
    ),
    Bug(
        "any end is a strike",
        "tolliver_proto/_handshakes.py",
        "if link.up and event.error is None and not link.ending and not link.gone:",
        "if link.up:",
    ),
    Bug(
        "searched for before all is stored",
        "tolliver_proto/_upkeep.py",
        "        if self._running is None and self._batch.empty:\n            self._continue(None)\n",
        "        if True:\n            self._continue(None)\n",
    ),
    Bug(
        "a forgotten peer's ids remembered",
        "tolliver_proto/_upkeep.py",
        "                self._handled.forget(peer.uuid)\n",
        "",
    ),
    Bug(
        "a flood is dropped instead of waiting",
        "tolliver_proto/_receiving.py",
        "            link.hurried = True  # what follows waits a second (D-12)\n",
        "            return\n",
    ),
    # Reactive Streams.
    Bug(
        "streams: demand off by one in packed",
        "tolliver_proto/reactive/_publisher.py",
        "        if len(elements) > stream.demand:\n",
        "        if len(elements) > stream.demand + 1:\n",
        REACTIVE,
    ),
    Bug(
        "streams: saturation missing",
        "tolliver_proto/reactive/_publisher.py",
        "stream.demand = min(stream.demand + frame.count, MAX_LONG)",
        "stream.demand = stream.demand + frame.count",
        REACTIVE,
    ),
    Bug(
        "streams: elements after a cancel",
        "tolliver_proto/reactive/_publisher.py",
        "        del self._streams[frame.subscriber_id]\n        if isinstance(frame, Request):\n",
        "        if isinstance(frame, Request):\n            del self._streams[frame.subscriber_id]\n",
        REACTIVE,
    ),
    Bug(
        "streams: old element size forgotten after cancel",
        "tolliver_proto/reactive/_subscriber.py",
        "        self._output.write(Cancel(subscriber_id))\n",
        "        self._output.write(Cancel(subscriber_id))\n        self.sizes.pop(subscriber_id, None)\n",
        REACTIVE,
    ),
    Bug(
        "streams: id reused before subscribed",
        "tolliver_proto/reactive/_subscriber.py",
        "        return Step.OLD_ANSWER if stream.unanswered else Step.ANSWER\n",
        "        return Step.ANSWER\n",
        REACTIVE,
    ),
    Bug(
        "streams: more than was asked for is taken",
        "tolliver_proto/reactive/_subscriber.py",
        "        if stream.received > stream.requested < MAX_LONG:\n",
        "        if stream.received > stream.requested + 1 < MAX_LONG:\n",
        REACTIVE,
    ),
    Bug(
        "streams: a deadline reads beyond the hello",
        "tolliver_proto/reactive/_connection.py",
        "        while self.state is waiting and (event := self.next_event()) is not None:\n",
        "        while (event := self.next_event()) is not None:\n",
        REACTIVE,
    ),
    Bug(
        "streams: Drained missing",
        "tolliver_proto/reactive/_hub.py",
        "            self._actions.append(Drained(cid))\n",
        "",
        REACTIVE,
    ),
    Bug(
        "streams: what is in transit is not counted",
        "tolliver_proto/reactive/_hub.py",
        "link.connection.wanted(subscriber_id, link.in_transit)",
        "link.connection.wanted(subscriber_id, 0)",
        REACTIVE,
    ),
    Bug(
        "streams: a second Transmit",
        "tolliver_proto/reactive/_hub.py",
        "        if connection is None or link.in_transit or link.gone:\n",
        "        if connection is None or link.gone:\n",
        REACTIVE,
    ),
    Bug(
        "streams: PeerDown twice",
        "tolliver_proto/reactive/_hub.py",
        "            link.told = False\n            self._actions.append(PeerDown",
        "            self._actions.append(PeerDown",
        REACTIVE,
    ),
    Bug(
        "streams: PeerDown before its reason is known",
        "tolliver_proto/reactive/_hub.py",
        "        elif link.closed:  # and the peer",
        "        elif not link.shut or link.closed:  # and the peer",
        REACTIVE,
    ),
    Bug(
        "streams: reading never resumes",
        "tolliver_proto/reactive/_hub.py",
        "            self._actions.append(ResumeReading(link.cid))\n",
        "",
        REACTIVE,
    ),
    Bug(
        "streams: elements cost only their bytes",
        "tolliver_proto/reactive/_hub.py",
        "        link.unread += sum(map(len, run.elements)) + ELEMENT_COST * len(run.elements)\n",
        "        link.unread += sum(map(len, run.elements))\n",
        REACTIVE,
    ),
    Bug(
        "streams: what was received before the loss is dropped",
        "tolliver_proto/reactive/_hub.py",
        "        elif link.closed:\n            self._forget(link)\n        else:\n",
        "        elif True:\n            self._forget(link)\n        else:\n",
        REACTIVE,
    ),
    Bug(
        "streams: a deadline that was met stays",
        "tolliver_proto/reactive/_hub.py",
        "        else:\n            self._timers.cancel(link.cid)\n",
        "",
        REACTIVE,
    ),
    Bug(
        "streams: a forgotten connection's deadline stays",
        "tolliver_proto/reactive/_hub.py",
        "        self._writable.pop(link, None)\n        self._timers.cancel(link.cid)\n",
        "        self._writable.pop(link, None)\n",
        REACTIVE,
    ),
    Bug(
        "streams: a peer that said hello is still a stranger",
        "tolliver_proto/reactive/_hub.py",
        "            self._arrivals.remove(link.cid)\n            self._actions.append(PeerUp",
        "            self._actions.append(PeerUp",
        REACTIVE,
    ),
)
