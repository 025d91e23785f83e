"""Cases of `vectors/messages/instance.json`: an instance, its peers' bytes, its program's calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from tests.cases import Case, Pieces, cut
from tests.wire.test_cases import in_layouts
from tests.wire.vectors import dialect, listed, made
from tolliver_proto import Abort, Action, Delivery, Limits, Message, PeerIdentity, Policy, Revision, ShutdownWrite

from .play import Play, deliveries


def identity(step: Case) -> PeerIdentity:
    """The identity that a peer's certificate proves."""
    certificate = step.get("certificate")
    if certificate is None:
        return PeerIdentity(address="a peer")
    uuids, prefixes = map(UUID, certificate.get("uuids", [])), certificate.get("prefixes", [])
    return PeerIdentity(frozenset(uuids), b"k" * 32, "a peer", frozenset(prefixes))


class Stage:
    """An instance and its connections, which are counted from 1."""

    def __init__(self, options: Case, revision: Revision, pieces: Pieces) -> None:
        self.revision = revision
        self.pieces = pieces
        peers = {UUID(peer): dialect(habits) for peer, habits in options.get("peers", {}).items()}
        self.play = Play(
            uuid=UUID(options["instance_id"]),
            first_id=options.get("first_id", 1),
            revision=revision,
            subscriptions=listed(options["subscriptions"]),
            handlers=[(*one, "all") for one in options.get("handlers", [["", ""]])],
            limits=Limits(**options.get("limits", {})),
            policy=Policy(probe=options.get("probe", "off")),
            dialect=dialect(options.get("dialect", {})),
            dialects=peers,
        )
        self.wires: list[Any] = []
        self.handed: list[Delivery] = []

    def does(self, step: Case) -> list[Action]:
        wire = self.wires[step["on"] - 1] if isinstance(step.get("on"), int) else self.wires[-1] if self.wires else None
        if "connect" in step:
            self.wires.append(self.play.accepted(identity=identity(step), revision=self.revision))
            return self.receives(self.wires[-1], step["connect"])
        if "dial" in step:
            actions = self.play.call("connect", f"remote {len(self.wires)}")
            self.wires.append(self.play.dialled(actions, revision=self.revision))
            return self.play.run()
        if "in" in step:
            return self.receives(wire, step["in"])
        if "time" in step:
            return self.play.wait(step["time"] - self.play.now)
        if "lost" in step:
            assert wire is not None
            return list(wire.lose())
        return [action for call in step["calls"] for action in self.calls(call)]

    def receives(self, wire: Any, data: str) -> list[Action]:
        actions = []
        for piece in self.pieces(bytes.fromhex(data)):
            self.play.node.receive_data(wire.cid, piece, now=self.play.now)
            actions += self.play.run()
        return actions

    def calls(self, call: Case) -> list[Action]:
        names = call.get("channel", ""), call.get("key", "")
        match call["call"]:
            case "send" | "unreliable_send" as name:
                return self.play.call(name, *names, bytes.fromhex(call["body"]))
            case "register":
                self.play.node.register(*names, "all")
                return self.play.run()
            case "subscribe" | "unsubscribe" as name:
                return self.play.call(name, *names)
            case name:
                settled = [self.taken(one) for one in call["message_ids"]]
                return self.play.call({"handled": "acknowledge", "failed": "fail"}[name], settled)

    def taken(self, message_id: int | None) -> Delivery:
        """The oldest delivery of that id which is not settled."""
        found = next(one for one in self.handed if one.message_id == message_id)
        self.handed.remove(found)
        return found

    def sent(self) -> list[str]:
        """Bytes of each connection since the last question."""
        written = [b"".join(wire.units).hex() for wire in self.wires]
        for wire in self.wires:
            wire.units.clear()
        return written

    def ended(self, actions: Iterable[Action]) -> list[int]:
        cids = {one.cid for one in actions if isinstance(one, Abort | ShutdownWrite)}
        return [number for number, wire in enumerate(self.wires, 1) if wire.cid in cids]


@cut
@pytest.mark.parametrize(("case", "revision"), in_layouts("instance"))
def test_instance(case: Case, revision: Revision, pieces: Pieces) -> None:
    stage = Stage(case["options"], revision, pieces)
    for place, step in enumerate(case["steps"]):
        actions = stage.does(step)
        handed = deliveries(actions)
        stage.handed += handed
        seen = [Message(one.channel, one.key, one.body, one.message_id) for one in handed]
        assert seen == [made(one) for one in step.get("handed", [])], place
        expected = "".join(step.get("out", []))
        on = step.get("on", len(stage.wires))
        assert stage.sent() == [
            expected if on in ("all", number) else "" for number in range(1, len(stage.wires) + 1)
        ], place
        assert stage.ended(actions) == step.get("ends", []), place
