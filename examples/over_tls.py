"""Alice serves two connections of bob, over TLS by `selectors`: the pure machine.

It needs `tolliver-proto` alone, and `tolliver certs certs alice bob` once. All is in one thread, and nothing blocks:
the loop turns a `Line` when its socket is ready or its time has come.
"""

import re
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    Established,
    Event,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    Role,
    Subscription,
)

COUNT = 3  # messages of each connection
SELECTOR = selectors.DefaultSelector()


def context(name: str, role: Role) -> ssl.SSLContext:
    """Mutual TLS 1.3: either end shows a certificate of the private CA."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if role is Role.SERVER else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations("certs/ca.pem")
    made.load_cert_chain(f"certs/{name}.pem", f"certs/{name}.key")
    return made


def own_uuid(name: str) -> UUID:
    """The UUID in our own certificate, as peers refuse us under another one."""
    certificate = ssl.PEM_cert_to_DER_cert(Path(f"certs/{name}.pem").read_text("ascii"))
    found = re.search(rb"urn:uuid:([0-9a-f-]{36})", certificate)
    assert found is not None, f"certs/{name}.pem has no UUID: make it with `tolliver certs`"
    return UUID(found[1].decode())


class Line:
    """A connection: its socket under TLS, its machine, and units that are still to be written."""

    def __init__(self, sock: socket.socket, name: str, role: Role) -> None:
        sock.setblocking(False)
        end: dict[str, Any] = {"server_side": True} if role is Role.SERVER else {"server_hostname": "localhost"}
        self.sock = context(name, role).wrap_socket(sock, do_handshake_on_connect=False, **end)
        self.name = name
        self.conn = Connection(role, instance_id=own_uuid(name), now=time.monotonic())
        self.certified: set[str] | None = None  # URIs in the peer's certificate, as soon as TLS stands
        self.unwritten: deque[bytes] = deque()
        self.blocked = self.shut = self.broken = self.over = False
        self.acked = 0
        SELECTOR.register(self.sock, selectors.EVENT_READ, self)

    def attempt(self, step: Callable[[], Any]) -> Any:
        """The result of the step; None where the socket is not ready for it, or has broken."""
        try:
            return step()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self.blocked = True
        except OSError:  # after an orderly end, too, as TLS has not been ended: `Closed` knows which it is
            self.broken = True
        return None

    def secure(self) -> None:
        self.sock.do_handshake()
        names: Any = (self.sock.getpeercert() or {}).get("subjectAltName", ())
        self.certified = {value.lower() for kind, value in names if kind == "URI"}

    def turn(self, readable: bool) -> None:
        """Reads, lets the machine think, and writes."""
        self.blocked, now, data = False, time.monotonic(), None
        if self.certified is None:
            self.attempt(self.secure)
        if self.certified is not None and readable:
            data = self.attempt(lambda: self.sock.recv(65536))
        if data:
            self.conn.receive_data(data, now)
        elif data == b"" or self.broken:
            self.conn.receive_eof(now)
        self.conn.handle_timeout(now)
        for event in self.conn.events():
            self.react(event)
        if self.certified is not None:
            self.unwritten.extend(self.conn.data_to_send())
        while self.unwritten and (sent := self.attempt(lambda: self.sock.send(self.unwritten[0]))):
            unit = self.unwritten.popleft()  # each unit is one write to TLS, never joined with the next one
            if sent < len(unit):
                self.unwritten.appendleft(unit[sent:])
        if self.conn.wants_write_shutdown and not self.unwritten and not self.shut:
            self.shut = True  # of TCP alone: the end of TLS, SSLSocket.shutdown, would end reading, too
            self.attempt(lambda: socket.socket.shutdown(self.sock, socket.SHUT_WR))
        room = selectors.EVENT_WRITE if self.blocked or self.unwritten else 0
        SELECTOR.modify(self.sock, selectors.EVENT_READ | room, self)
        if self.broken or self.over:
            SELECTOR.unregister(self.sock)
            self.sock.close()

    def react(self, event: Event) -> None:
        conn = self.conn
        if isinstance(event, (HandshakeRequest, HandshakeResponse)):
            if f"urn:uuid:{event.instance_id}" not in (self.certified or ()):
                print(self.name, "refuses a peer that is not who it says")
                conn.reject() if conn.role is Role.SERVER else conn.close()
            elif isinstance(event, HandshakeRequest):
                conn.accept([Subscription("readings", "")])
        elif isinstance(event, Established) and conn.role is Role.CLIENT:
            for number in range(COUNT):
                conn.send(Message("readings", f"number {number}", b"17 %", message_id=number + 1))
        elif isinstance(event, Message) and event.message_id is not None:
            print(self.name, "received", event.key)
            conn.send(Ack(event.message_id))
        elif isinstance(event, Ack):
            self.acked += 1
            if self.acked == COUNT:
                conn.close()
        elif isinstance(event, Closed):
            print(self.name, "has ended a connection in order" if event.error is None else event.error)
            self.over = True


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), socket.create_server(("127.0.0.1", 0)) as listener:
        SELECTOR.register(listener, selectors.EVENT_READ)
        for _ in range(2):
            Line(socket.create_connection(listener.getsockname()), "bob", Role.CLIENT)
        while lines := [key.data for key in SELECTOR.get_map().values() if key.data]:
            dues = [due for line in lines if (due := line.conn.next_timeout()) is not None]
            wait = max(0.0, min(dues) - time.monotonic()) if dues else None
            ready = {key.data for key, events in SELECTOR.select(wait) if events & selectors.EVENT_READ}
            if None in ready:
                Line(listener.accept()[0], "alice", Role.SERVER)
            for line in lines:
                line.turn(line in ready)
    SELECTOR.close()
