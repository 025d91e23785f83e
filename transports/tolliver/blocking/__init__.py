"""tolliver on threads and blocking calls, for messages and streams.

`create_instance` and `create_streams` open the two objects that programs use, from any thread; `BlockingConnection` is
one connection without any thread. One thread serves the sockets and one the database; handlers have threads of their
own. docs/blocking.md has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door, needed

needed("blocking", "attrs")

if TYPE_CHECKING:
    from tolliver_proto import Delivery
    from tolliver_proto.node import Job, Reply, Request

    from .._messages.mailbox import Handler
    from .._messages.responding import Responder
    from .._messages.run import Run
    from .._messages.typed import TypedRun
    from .._options.acl_file import load_acl
    from .._options.instance import TLS, InstanceOptions, Remote
    from .._options.streams import StreamsOptions
    from .._streams.bridge import thread_bridge as bridge
    from .._streams.publishing import Publication
    from .._tls.policy import Pumps
    from ..codecs._bodies import TypedDelivery
    from ..codecs._codec import Codec
    from ..codecs._requests import TypedReply, TypedRequest
    from ..codecs._retained import TypedRetainedValue
    from .connection import BlockingConnection
    from .handler_calls import Registration
    from .instance import Admin, Channel, Instance, WorkQueue
    from .iterators import Messages, Runs
    from .opening import create_instance
    from .streams import Peer, StreamChannel, Streams
    from .streams_opening import create_streams
    from .subscription import Subscription
    from .typed import TypedMessages, TypedRuns, TypedWork
    from .waits import still_wanted
    from .work import Work
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto": "Delivery",
            "tolliver_proto.node": "Job, Reply, Request",
            ".._messages.mailbox": "Handler",
            ".._messages.run": "Run",
            ".._messages.responding": "Responder",
            ".._messages.typed": "TypedRun",
            ".._options.acl_file": "load_acl",
            ".._options.instance": "TLS, InstanceOptions, Remote",
            ".._options.streams": "StreamsOptions",
            ".._streams.bridge": "thread_bridge as bridge",
            ".._streams.publishing": "Publication",
            ".._tls.policy": "Pumps",
            "..codecs._bodies": "TypedDelivery",
            "..codecs._codec": "Codec",
            "..codecs._requests": "TypedReply, TypedRequest",
            "..codecs._retained": "TypedRetainedValue",
            ".connection": "BlockingConnection",
            ".opening": "create_instance",
            ".streams_opening": "create_streams",
            ".instance": "Admin, Channel, Instance, WorkQueue",
            ".handler_calls": "Registration",
            ".iterators": "Messages, Runs",
            ".work": "Work",
            ".streams": "Peer, StreamChannel, Streams",
            ".subscription": "Subscription",
            ".typed": "TypedMessages, TypedRuns, TypedWork",
            ".waits": "still_wanted",
        },
    )


__all__ = [
    "TLS",
    "Admin",
    "BlockingConnection",
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
    "still_wanted",
]
