"""Endpoint of the matrix (interop/README.md): an instance, or streams, on the adapter that the argument names.

python -m interop.endpoints.ours asyncio|trio|twisted|blocking
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tolliver._options.instance import TLS, InstanceOptions, Remote

from interop.endpoints.contract import Given, digest
from tests.adapters.facade import Facade, World, deadline, until
from tests.adapters.kinds import make_world
from tolliver_proto import Delivery, Revision, Subscription
from tolliver_proto.layouts import LAYOUTS, Dialect

DEMAND = 16  # elements of a stream that may be on their way


def endpoint_options(given: Given, revision: Revision) -> dict[str, Any]:
    """The calls that an instance and streams have in common."""
    files = (given.certs / f"{given.name}.pem", given.certs / f"{given.name}.key", given.certs / "ca.pem")
    return {
        **({"plaintext": True} if LAYOUTS[revision].plaintext else {"tls": TLS(*files)}),
        **({"listen": given.address} if given.listens else {}),
    }


def messages(given: Given, world: World) -> None:
    revision = Revision[given.wire.upper().replace("-", "_")]
    wants = (Subscription(given.peer, ""),) if revision is Revision.RUST_2026 else None  # it cannot say so itself
    dialect = Dialect(revision=revision, subscriptions=wants)

    def handle(delivery: Delivery) -> None:
        given.say("handled", delivery.key, digest(delivery.body))

    options = InstanceOptions(
        **endpoint_options(given, revision),
        database=given.state / "node.db",
        identity=given.uuid,
        remotes=[] if given.listens else [Remote("127.0.0.1", given.port, dialect=dialect)],
        revision=revision,
        dialects={given.peer_uuid: dialect},
        handlers=[(given.name, "", handle)],
        subscriptions=[given.name],
    )
    with Facade(world, options) as node:
        given.say("ready")
        for verb, key, file in given.lines():
            deadline.restart()
            body = Path(file).read_bytes()
            if verb == "send":
                given.say("stored" if node.send(given.peer, key, body).recipients else "nobody", key)
            else:
                given.say("told" if node.unreliable_send(given.peer, key, body) else "nobody", key)
        deadline.restart()


def streams(given: Given, world: World) -> None:
    from tolliver._options.streams import StreamsOptions  # half of what a start costs, which kills pay again and again

    from tests.adapters.streams import StreamsFacade

    def elements(_name: str) -> Iterator[bytes]:
        return iter(given.elements())

    with StreamsFacade(world, StreamsOptions(**endpoint_options(given, Revision.DRAFT_2))) as ours:
        ours.publish(given.name, elements)
        given.say("ready")
        peer = None if given.listens else ours.connect(given.address)
        until(ours.peers, "a peer")
        for element in ours.subscribe(given.peer, peer=peer, demand=DEMAND):
            given.say("element", digest(element))
            deadline.restart()
        given.say("completed")
        for _ in given.lines():
            pass


def main(kind: str) -> None:
    given = Given.from_environment()
    if given.wire not in ("draft-2", "go-2026", "rust-2026") or given.scenario not in SCENARIOS[given.wire]:
        sys.exit(127)
    world = make_world(kind)
    try:
        (streams if given.scenario == "streams" else messages)(given, world)
    finally:
        world.close()


SCENARIOS = {
    "draft-2": ("messages", "unreliable", "large", "kills", "streams"),
    "go-2026": ("messages", "unreliable", "large", "kills"),
    "rust-2026": ("unreliable",),
}

if __name__ == "__main__":
    main(sys.argv[1])
