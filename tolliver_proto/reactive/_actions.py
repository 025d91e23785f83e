"""Actions of a hub for the program that publishes and subscribes.

The actions that move bytes (Transmit, Dial, PauseReading, ResumeReading, ShutdownWrite, Abort) are those of the
messaging protocol's node, so that one driver serves both.
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
    """The peer has said hello: streams may go both ways. `remote` is None if the peer dialled us.

    `extensions` are the ids of the extensions that both sides have (R-27).
    """

    cid: int
    identity: PeerIdentity
    remote: Remote | None
    extensions: frozenset[int] = frozenset()


@record
class PeerDown:
    """The connection and all of its streams have ended; the action comes once for each cid that was dialled or up.

    `error` is None after goodbyes of both sides; `reason` is the reason of the first goodbye. `failure` is the cause of
    a failed dial, None if the peer had said hello.
    """

    cid: int
    remote: Remote | None
    error: TolliverError | None
    reason: str = ""
    failure: DialFailure | None = None


@record
class Happened:
    """Event of one stream of the connection, in the order of the wire."""

    cid: int
    event: Subscribe | Request | Cancel | Subscribed | Elements | OnComplete | OnError


@record
class Drained:
    """Unsent bytes are down to low water: `wanted`, which was 0 because of them, is the demand again (R-32)."""

    cid: int


Action = TransportAction | PeerUp | PeerDown | Happened | Drained | CertificateExpires
"""All actions of a hub; a driver has a function for each."""
