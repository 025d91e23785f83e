"""Store of a node, as one of your own needs it.

Here are the operations of a commit, the rows of a fetch, and what is loaded at the opening.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolliver_proto._common.errors import DiskFull
    from tolliver_proto._common.owner_ids import ANSWERED, LATER, VALUES, is_keeper, is_kept, is_queue, queue_id
    from tolliver_proto._node.actions import Find
    from tolliver_proto._node.outboxes.ids import Randomness, begin_elsewhere
    from tolliver_proto._node.store import (
        DUE,
        KILLED_ITS_PROCESS,
        STORING,
        AddDeadLetter,
        AddDeliveries,
        AddOwnSubscription,
        AddPeerSubscription,
        CorruptMessage,
        DeadLetter,
        Due,
        ForgetPeer,
        ForgetUnsubscribe,
        Found,
        KeepUnsubscribe,
        Loaded,
        LoadedPeer,
        NamePeer,
        Operation,
        ParkDelivery,
        PinPeer,
        RememberHandled,
        RemoveDeadLetters,
        RemoveDeliveries,
        RemoveMessages,
        RemoveOwnSubscription,
        RemovePeerSubscription,
        ReplacePeerSubscriptions,
        ReserveIds,
        Row,
        Store,
        StoredMessage,
        StoreMessages,
        UnparkDeliveries,
        UnpinPeer,
        bytes_of,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "tolliver_proto._common.errors": "DiskFull",
            "tolliver_proto._common.owner_ids": "ANSWERED, LATER, VALUES, is_keeper, is_kept, is_queue, queue_id",
            "tolliver_proto._node.actions": "Find",
            "tolliver_proto._node.outboxes.ids": "Randomness, begin_elsewhere",
            "tolliver_proto._node.store": (
                "AddDeadLetter, AddDeliveries, AddOwnSubscription, AddPeerSubscription, CorruptMessage, DUE, "
                "DeadLetter, Due, ForgetPeer, ForgetUnsubscribe, Found, KILLED_ITS_PROCESS, KeepUnsubscribe, Loaded, "
                "LoadedPeer, NamePeer, Operation, ParkDelivery, PinPeer, RememberHandled, RemoveDeadLetters, "
                "RemoveDeliveries, RemoveMessages, RemoveOwnSubscription, RemovePeerSubscription, "
                "ReplacePeerSubscriptions, ReserveIds, Row, STORING, Store, StoreMessages, StoredMessage, "
                "UnparkDeliveries, UnpinPeer, bytes_of"
            ),
        },
    )

__all__ = [
    "ANSWERED",
    "DUE",
    "KILLED_ITS_PROCESS",
    "LATER",
    "STORING",
    "VALUES",
    "AddDeadLetter",
    "AddDeliveries",
    "AddOwnSubscription",
    "AddPeerSubscription",
    "CorruptMessage",
    "DeadLetter",
    "DiskFull",
    "Due",
    "Find",
    "ForgetPeer",
    "ForgetUnsubscribe",
    "Found",
    "KeepUnsubscribe",
    "Loaded",
    "LoadedPeer",
    "NamePeer",
    "Operation",
    "ParkDelivery",
    "PinPeer",
    "Randomness",
    "RememberHandled",
    "RemoveDeadLetters",
    "RemoveDeliveries",
    "RemoveMessages",
    "RemoveOwnSubscription",
    "RemovePeerSubscription",
    "ReplacePeerSubscriptions",
    "ReserveIds",
    "Row",
    "Store",
    "StoreMessages",
    "StoredMessage",
    "UnparkDeliveries",
    "UnpinPeer",
    "begin_elsewhere",
    "bytes_of",
    "is_keeper",
    "is_kept",
    "is_queue",
    "queue_id",
]
