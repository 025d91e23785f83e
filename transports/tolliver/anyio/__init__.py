"""tolliver on asyncio and trio, through anyio: messages, and streams with demand.

`create_instance` and `create_streams` open the two objects that programs use. On asyncio the loop's callbacks serve
each connection; on trio two tasks do. This package only moves bytes: node and hub have the protocol. docs/anyio.md has
examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door, needed

needed("anyio", "attrs", "anyio")

if TYPE_CHECKING:
    from tolliver_proto import Delivery
    from tolliver_proto.node import Job, Reply, Request

    from .._messages.iterators import Messages, Registration, Runs
    from .._messages.mailbox import Handler
    from .._messages.queues import Work
    from .._messages.responding import Responder
    from .._messages.run import Run
    from .._messages.typed import TypedMessages, TypedRun, TypedRuns, TypedWork
    from .._options.acl_file import load_acl
    from .._options.instance import TLS, InstanceOptions, Remote
    from .._options.streams import StreamsOptions
    from .._streams.async_streams import Subscription
    from .._streams.bridge import async_bridge as bridge
    from .._streams.publishing import Publication
    from .._tls.policy import Pumps
    from ..codecs._bodies import TypedDelivery
    from ..codecs._codec import Codec
    from ..codecs._requests import TypedReply, TypedRequest
    from ..codecs._retained import TypedRetainedValue
    from .connection import AsyncConnection, open_connection
    from .instance import Admin, Channel, Instance, WorkQueue
    from .opening import create_instance, run
    from .streams import Peer, StreamChannel, Streams
    from .streams_opening import create_streams
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto": "Delivery",
            "tolliver_proto.node": "Job, Reply, Request",
            ".._messages.mailbox": "Handler",
            ".._messages.run": "Run",
            ".._messages.iterators": "Messages, Registration, Runs",
            ".._messages.queues": "Work",
            ".._messages.responding": "Responder",
            ".._messages.typed": "TypedMessages, TypedRun, TypedRuns, TypedWork",
            ".._options.acl_file": "load_acl",
            ".._options.instance": "TLS, InstanceOptions, Remote",
            ".._options.streams": "StreamsOptions",
            ".._streams.async_streams": "Subscription",
            ".._streams.bridge": "async_bridge as bridge",
            ".._streams.publishing": "Publication",
            ".._tls.policy": "Pumps",
            ".connection": "AsyncConnection, open_connection",
            "..codecs._bodies": "TypedDelivery",
            "..codecs._codec": "Codec",
            "..codecs._requests": "TypedReply, TypedRequest",
            "..codecs._retained": "TypedRetainedValue",
            ".opening": "create_instance, run",
            ".streams_opening": "create_streams",
            ".instance": "Admin, Channel, Instance, WorkQueue",
            ".streams": "Peer, StreamChannel, Streams",
        },
    )


__all__ = [
    "TLS",
    "Admin",
    "AsyncConnection",
    "Channel",
    "Codec",
    "Delivery",
    "Handler",
    "Instance",
    "InstanceOptions",
    "Job",
    "Messages",
    "Peer",
    "Publication",
    "Pumps",
    "Registration",
    "Remote",
    "Reply",
    "Request",
    "Responder",
    "Run",
    "Runs",
    "StreamChannel",
    "Streams",
    "StreamsOptions",
    "Subscription",
    "TypedDelivery",
    "TypedMessages",
    "TypedReply",
    "TypedRequest",
    "TypedRetainedValue",
    "TypedRun",
    "TypedRuns",
    "TypedWork",
    "Work",
    "WorkQueue",
    "bridge",
    "create_instance",
    "create_streams",
    "load_acl",
    "open_connection",
    "run",
]
