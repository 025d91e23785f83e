"""Connection of a local program, without I/O (P-98)."""

from __future__ import annotations

from itertools import count
from time import monotonic
from uuid import UUID

from tolliver_proto import Connection, ConnectionLost, Limits, Message, Role
from tolliver_proto.layouts import State
from tolliver_proto.node import DialCause

from .envelopes import CHANNEL, MARGIN, Ask, Outcome, read_answer
from .identities import new_identity

_LIMITS = Limits()
_REFUSED = (
    "the instance at {} ended the connection before it took this program in: it was stopped just then, or the socket's "
    "mode lets this program's user connect, and the instance does not"
)


class Line:
    """State of a connection: the handshake, asks that wait for their answers, and the answers."""

    def __init__(self, path: str) -> None:
        self._path = path
        limits = Limits(max_body=_LIMITS.max_body + MARGIN)
        self._connection = Connection(Role.CLIENT, instance_id=new_identity(), limits=limits, now=monotonic())
        self._numbers = count(1)
        self._waiting: set[int] = set()
        self._outcomes: dict[int, Outcome] = {}

    @property
    def is_open(self) -> bool:
        """True once the instance has taken this program in."""
        return self._connection.live

    @property
    def instance_id(self) -> UUID | None:
        """UUID of the instance, once the connection is open."""
        return self._connection.peer_id

    def ask(self, ask: Ask) -> int:
        """Queue an ask; returns its number. Raises LocalProtocolError for names or bodies that no message can have, and
        ConnectionLost if the connection has ended."""
        number = next(self._numbers)
        body = ask.body()
        if not self._connection.live:
            raise self._lost()
        self._connection.send(Message(CHANNEL, "", body, number))
        self._waiting.add(number)
        return number

    def data_to_send(self) -> bytes:
        return b"".join(self._connection.data_to_send())

    def receive(self, data: bytes) -> list[int]:
        """Take bytes; b"" is the end of the stream. Returns the numbers of the asks that are answered now. Raises
        ConnectionLost if the connection is over."""
        answered = []
        connection = self._connection
        was_open = self.is_open
        connection.receive_data(data, monotonic())
        for event in connection.events():
            if isinstance(event, Message) and event.channel == CHANNEL:
                try:
                    number, outcome = read_answer(event.body)
                except ValueError as error:
                    raise ConnectionLost(f"what listens at {self._path} is no instance: {error}") from None
                if number in self._waiting:
                    self._waiting.remove(number)
                    self._outcomes[number] = outcome
                    answered.append(number)
        if not data or connection.state is State.CLOSED:
            raise self._lost() if was_open or self.is_open else self._refused()
        return answered

    def is_answered(self, number: int) -> bool:
        return number in self._outcomes

    def take(self, number: int) -> Outcome | None:
        """The outcome of an ask, once; None if it was not answered yet."""
        return self._outcomes.pop(number, None)

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.discard(number)
        self._outcomes.pop(number, None)

    def broken(self, error: OSError | ValueError) -> ConnectionLost:
        """The error for an end of the connection that the system tells of."""
        if self.is_open:
            return ConnectionLost(f"the connection to the instance at {self._path} broke: {error}")
        return self._refused()

    def _refused(self) -> ConnectionLost:
        return ConnectionLost(_REFUSED.format(self._path), DialCause.ACCESS)

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to the instance at {self._path} has ended")
