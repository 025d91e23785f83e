"""Two connections in one thread by `select`: the pure machine in an own loop.

It needs `tolliver-proto` alone: no extra, no certificate.
"""

import select
import socket
import time
from contextlib import suppress
from uuid import uuid4

from tolliver_proto import Ack, Connection, Established, Event, HandshakeRequest, Message, Role, Subscription
from tolliver_proto.layouts import State


class End:
    """One end: the socket, the machine, and units that are still to be written."""

    def __init__(self, sock: socket.socket, role: Role) -> None:
        sock.setblocking(False)
        self.sock, self.unwritten = sock, list[bytes]()
        self.conn = Connection(role, instance_id=uuid4(), now=time.monotonic())

    def turn(self, readable: bool) -> None:
        now = time.monotonic()
        if readable:
            data = self.sock.recv(65536)
            self.conn.receive_data(data, now) if data else self.conn.receive_eof(now)
        self.conn.handle_timeout(now)
        for event in self.conn.events():
            print(self.conn.role.name, event)
            react(self.conn, event)
        self.unwritten += self.conn.data_to_send()
        if self.unwritten and select.select([], [self.sock], [], 0)[1]:
            sent = self.sock.send(self.unwritten[0])  # each unit is one write, never joined with the next one
            self.unwritten[:1] = [rest] if (rest := self.unwritten[0][sent:]) else []
        if self.conn.wants_write_shutdown and not self.unwritten:
            self.sock.close() if self.conn.state is State.CLOSED else self.sock.shutdown(socket.SHUT_WR)


def react(conn: Connection, event: Event) -> None:
    if isinstance(event, HandshakeRequest):
        conn.accept([Subscription("greetings", "")])
    elif isinstance(event, Established) and conn.role is Role.CLIENT:
        conn.send(Message("greetings", "first", b"hello", message_id=1))
    elif isinstance(event, Message) and event.message_id is not None:
        conn.send(Ack(event.message_id))
    elif isinstance(event, Ack):
        conn.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        ends: list[End] = [End(*one) for one in zip(socket.socketpair(), (Role.SERVER, Role.CLIENT), strict=True)]
        wait: float | None = 0.0
        while ends:
            ready = select.select([end.sock for end in ends], [end.sock for end in ends if end.unwritten], [], wait)[0]
            for end in ends:
                end.turn(end.sock in ready)
            ends = [end for end in ends if end.sock.fileno() >= 0]
            dues = (due for end in ends if (due := end.conn.next_timeout()) is not None)
            wait = min((max(0.0, due - time.monotonic()) for due in dues), default=None)
