"""Actions of a hub, beside those that move bytes.

Transmit, Dial, PauseReading, ResumeReading, ShutdownWrite and Abort are those of the other protocol's node, so one
driver carries out both. Those defined here are for the program that publishes and subscribes.
"""

from __future__ import annotations

from .._common.certificate_watch import CertificateExpires
from .._common.dial_failures import DialFailure
from .._common.errors import TolliverError
from .._common.records import record
from .._common.transport import PeerIdentity, Remote, TransportAction
from ._events import Cancel, Elements, OnComplete, OnError, Request, Subscribe, Subscribed


@record
class PeerUp:
    """The peer has said hello: streams may go both ways. `remote` is None where the peer dialled us.

    `extensions` are those that both sides have (R-27).
    """

    cid: int
    identity: PeerIdentity
    remote: Remote | None
    extensions: frozenset[int] = frozenset()


@record
class PeerDown:
    """The connection is over, and every stream of it has ended; once for each cid that was dialled or came up.

    `error` is None after goodbyes of both sides; `reason` is then the one that ended it. `failure` says why a dial came
    to nothing, None where the peer had said hello.
    """

    cid: int
    remote: Remote | None
    error: TolliverError | None
    reason: str = ""
    failure: DialFailure | None = None


@record
class Happened:
    """Something for one stream of this connection, in the order of the wire."""

    cid: int
    event: Subscribe | Request | Cancel | Subscribed | Elements | OnComplete | OnError


@record
class Drained:
    """`wanted` was 0 here as too much was unsent, and is the demand again (R-32)."""

    cid: int


Action = TransportAction | PeerUp | PeerDown | Happened | Drained | CertificateExpires
"""All that a hub can ask for: a driver has a function for each."""
