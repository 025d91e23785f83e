"""Lines of the matrix's contract, for a `Peer` in WebAssembly: `endpoint.mjs` starts it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from pyodide.ffi import to_js

from interop.pyodide.peer import Journal, Peer, Sockets
from tolliver_proto import Delivery, Revision, Subscription
from tolliver_proto.layouts import Dialect


class Endpoint:
    def __init__(self, sockets: Sockets, say: Callable[[str], None], given: Mapping[str, str]) -> None:
        self._say = say
        self._to = given["INTEROP_PEER"]
        revision = Revision[given["INTEROP_WIRE"].upper().replace("-", "_")]
        wants = (Subscription(self._to, ""),) if revision is Revision.RUST_2026 else None  # it cannot say so itself
        self.peer = Peer(
            sockets,
            Journal(Path(given["INTEROP_STATE"]) / "journal"),
            to_js,
            lambda text: print(text, file=sys.stderr),
            instance_id=UUID(given["INTEROP_UUID"]),
            handlers=[(given["INTEROP_NAME"], "", self._handle)],
            subscriptions=[(given["INTEROP_NAME"], "")],
            revision=revision,
            dialects={UUID(given["INTEROP_PEER_UUID"]): Dialect(revision=revision, subscriptions=wants)},
        )

    def take(self, line: str) -> None:
        verb, key, file = line.split(" ", 2)
        body = Path(file).read_bytes()
        if verb == "send":
            self.peer.send(self._to, key, body, lambda receipt: self._stored(key, receipt))
        else:
            self._say(f"{'told' if self.peer.unreliable_send(self._to, key, body) else 'nobody'} {key}")

    def end(self) -> None:
        self.peer.close()

    def _stored(self, key: str, receipt: Any) -> None:
        self._say(f"{'stored' if receipt.recipients else 'nobody'} {key}")

    def _handle(self, delivery: Delivery) -> None:
        self._say(f"handled {delivery.key} {hashlib.sha256(delivery.body).hexdigest()}")
