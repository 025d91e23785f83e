"""Local programs: messages handed over to an instance of this machine.

They need no certificate and no database.

The instance accepts at a Unix socket: `accept = "unix:run/tolliver.sock"` in the file of `tolliver run`, or
`InstanceOptions(accept=...)`. `connect` is for threads (`with`), and for asyncio and trio (`async with`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door
from .._local.identities import local_prefix

if TYPE_CHECKING:
    from .._local.envelopes import LocalReceipt, LocalReply
    from ._clients import AsyncChannel, AsyncClient, Channel, Client, Connecting, connect
    from ._relay import LocalRelay
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            ".._local.envelopes": "LocalReceipt, LocalReply",
            "._clients": "AsyncChannel, AsyncClient, Channel, Client, Connecting, connect",
            "._relay": "LocalRelay",
        },
    )

__all__ = [
    "AsyncChannel",
    "AsyncClient",
    "Channel",
    "Client",
    "Connecting",
    "LocalReceipt",
    "LocalRelay",
    "LocalReply",
    "connect",
    "local_prefix",
]
