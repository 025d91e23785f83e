"""tolliver: brokerless messaging as a pure state machine, without I/O.

One connection (`Connection`, its frames, which are its events), and the node with a connection to each peer (`Node`,
its actions, which an adapter carries out). Other doors:

- `errors`: all errors
- `node`: what an adapter of the node needs beyond this, and the patterns
- `store`: what a store of one's own needs: operations, rows, what is loaded
- `layouts`: dialects and layouts of other programs
- `reactive`: streams with demand; `recording`: recordings; `testing`: a simulated network
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.builds import choose
from ._common.lazy_names import lazy_names

__version__ = "0.1.0rc1"
"""Version of the distribution, and of all packages in it: nowhere else is it written."""

choose()

if TYPE_CHECKING:
    from ._common.build_info import BuildInfo, build_info
    from ._common.errors import (
        ConnectionClosing,
        ConnectionLost,
        HandshakeRejected,
        IdentityConflict,
        LimitExceeded,
        LocalProtocolError,
        MalformedFrame,
        OutboxFull,
        OwnLimitExceeded,
        ProtocolError,
        RemoteProtocolError,
        ReservedChannel,
        SelfConnection,
        StoreError,
        TolliverError,
        UnexpectedEOF,
        UnexpectedFrame,
    )
    from ._common.transport import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
    from ._node.access import Acl, Rights
    from ._node.actions import (
        Action,
        Commit,
        Deliver,
        Delivery,
        Fetch,
        Notice,
        NoticeKind,
        PeerDown,
        PeerUp,
        Receipt,
        Stored,
    )
    from ._node.node import Node
    from ._node.policy import Policy
    from ._wire.connection import Connection
    from ._wire.events import (
        Ack,
        Closed,
        Established,
        Event,
        Frame,
        HandshakeFinal,
        HandshakeRequest,
        HandshakeResponse,
        HandshakeStatus,
        Ignored,
        Message,
        Revision,
        Subscribe,
        Subscription,
        Unsubscribe,
    )
    from ._wire.frames import Decoder, decode, encode
    from ._wire.limits import Limits
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "._common.build_info": "BuildInfo, build_info",
            "._common.errors": (
                "ConnectionClosing, ConnectionLost, HandshakeRejected, IdentityConflict, LimitExceeded, "
                "LocalProtocolError, MalformedFrame, OutboxFull, OwnLimitExceeded, ProtocolError, "
                "RemoteProtocolError, ReservedChannel, SelfConnection, StoreError, TolliverError, UnexpectedEOF, "
                "UnexpectedFrame"
            ),
            "._common.transport": (
                "Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit"
            ),
            "._node.access": "Acl, Rights",
            "._node.actions": (
                "Action, Commit, Deliver, Delivery, Fetch, Notice, NoticeKind, PeerDown, PeerUp, Receipt, Stored"
            ),
            "._node.node": "Node",
            "._node.policy": "Policy",
            "._wire.connection": "Connection",
            "._wire.events": (
                "Ack, Closed, Established, Event, Frame, HandshakeFinal, HandshakeRequest, HandshakeResponse, "
                "HandshakeStatus, Ignored, Message, Revision, Subscribe, Subscription, Unsubscribe"
            ),
            "._wire.frames": "Decoder, decode, encode",
            "._wire.limits": "Limits",
        },
    )

__all__ = [
    "Abort",
    "Ack",
    "Acl",
    "Action",
    "BuildInfo",
    "Closed",
    "Commit",
    "Connection",
    "ConnectionClosing",
    "ConnectionLost",
    "Decoder",
    "Deliver",
    "Delivery",
    "Dial",
    "Established",
    "Event",
    "Fetch",
    "Frame",
    "HandshakeFinal",
    "HandshakeRejected",
    "HandshakeRequest",
    "HandshakeResponse",
    "HandshakeStatus",
    "IdentityConflict",
    "Ignored",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "MalformedFrame",
    "Message",
    "Node",
    "Notice",
    "NoticeKind",
    "OutboxFull",
    "OwnLimitExceeded",
    "PauseReading",
    "PeerDown",
    "PeerIdentity",
    "PeerUp",
    "Policy",
    "ProtocolError",
    "Receipt",
    "RemoteProtocolError",
    "ReservedChannel",
    "ResumeReading",
    "Revision",
    "Rights",
    "Role",
    "SelfConnection",
    "ShutdownWrite",
    "StoreError",
    "Stored",
    "Subscribe",
    "Subscription",
    "TolliverError",
    "Transmit",
    "UnexpectedEOF",
    "UnexpectedFrame",
    "Unsubscribe",
    "build_info",
    "decode",
    "encode",
]
