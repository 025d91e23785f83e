"""tolliver on threads and blocking calls, for messages and streams.

`create_instance` and `create_streams` open what a program uses, from any thread; `BlockingConnection` is one connection
without a thread. One thread has the sockets, one the database; handlers have threads of their own.
docs/blocking.md shows it at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door, needed

needed("blocking", "attrs")

if TYPE_CHECKING:
    from tolliver_proto import Delivery, Job, Reply, Request

    from .._messages.inbox import Handler, Run
    from .._messages.responding import Responder
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
    from .instance import Instance, create_instance
    from .iterators import Messages, Registration, Runs
    from .queues import TypedWorkQueue, Work, WorkQueue
    from .streams import Peer, Streams, create_streams
    from .subscription import Subscription
    from .typed import TypedMessages, TypedRuns, TypedWork
    from .waits import still_wanted

    Received = Delivery
    """The former name of a delivery that an iterator hands out."""
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto": "Delivery, Delivery as Received, Job, Reply, Request",
            ".._messages.inbox": "Handler, Run",
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
            ".instance": "Instance, create_instance",
            ".iterators": "Messages, Registration, Runs",
            ".queues": "TypedWorkQueue, Work, WorkQueue",
            ".streams": "Peer, Streams, create_streams",
            ".subscription": "Subscription",
            ".typed": "TypedMessages, TypedRuns, TypedWork",
            ".waits": "still_wanted",
        },
    )


__all__ = [
    "TLS",
    "BlockingConnection",
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
    "Received",
    "Registration",
    "Remote",
    "Reply",
    "Request",
    "Responder",
    "Run",
    "Runs",
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
    "TypedWorkQueue",
    "Work",
    "WorkQueue",
    "bridge",
    "create_instance",
    "create_streams",
    "load_acl",
    "still_wanted",
]
