"""Pattern classes of this package, for `Node(patterns=...)`."""

from __future__ import annotations

from .answers import JobAnswers
from .calls import JobCalls
from .for_later import ForLater
from .last_values import LastValues
from .message_keys import MessageKeys
from .queues import Queues
from .requests import Requests
from .suspects import Suspects
from .work import QueueWork

PATTERNS = (Suspects, LastValues, ForLater, MessageKeys, Requests, Queues, QueueWork, JobCalls, JobAnswers)
"""All patterns, for `Node(patterns=)`, which uses those with data in the store from the opening on."""
