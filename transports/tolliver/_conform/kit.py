"""The kit's ports and certificates, and the connections of one case."""

from __future__ import annotations

import datetime
import shutil
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Generic, Self, TypeVar
from uuid import UUID, uuid4

from .._options.instance import TLS, Remote
from .._tls.policy import client_context, server_context
from .._tls.pump import AnyPump, PlainPump, Pump
from ..certs import make_anonymous_certificate, make_ca, make_certificate
from .cases import Failed, Role, Skipped
from .wire import Wire

W = TypeVar("W", bound=Wire)
Address = tuple[str, int]
Make = Callable[[socket.socket, AnyPump, float], W]


@dataclass(frozen=True)
class Setup:
    """The peer under test, the kit's identity, and its patience in seconds."""

    tls: TLS | None
    """None is plaintext."""
    alpn: str
    dial: Address | None = None
    listen: Address | None = None
    patience: float = 15.0
    grace: float = 40.0
    """Of messages that the peer did not subscribe to (T-46)."""
    redial: float = 40.0


class Certificates:
    """Certificates for special cases, made when they are first asked for, of another CA or of the same one."""

    def __init__(self, tls: TLS, directory: Path) -> None:
        self._tls, self._directory = tls, directory
        self._made: dict[str, TLS] = {}

    def foreign(self) -> TLS:
        """Of a CA that the peer does not know; it trusts ours."""
        return self._once("foreign", self._make_foreign)

    def expired(self) -> TLS:
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
        return self._once("expired", lambda: self._make("expired", days=1, valid_from=yesterday))

    def elsewhere(self) -> TLS:
        """Under a host name that nobody dials."""
        return self._once("elsewhere", lambda: self._make("elsewhere", hosts=("elsewhere.invalid",)))

    def named(self) -> TLS:
        """With a UUID that no case says."""
        return self._once("named", lambda: self._make("named"))

    def second(self) -> TLS:
        """Another key of the same CA, without a UUID."""
        return self._once("second", self._make_second)

    def _once(self, name: str, make: Callable[[], TLS]) -> TLS:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def _make_foreign(self) -> TLS:
        directory = self._directory / "foreign"
        make_ca(directory)
        made = make_certificate(directory, "foreign")
        return TLS(made.cert, made.key, self._tls.ca)

    def _ca(self) -> Path:
        """Our CA's files, copied: what is made goes beside them."""
        key = self._tls.ca.with_suffix(".key")
        if not key.exists():
            raise Skipped(f"it needs a certificate that only {key} can sign")
        directory = self._directory / "ours"
        if not directory.exists():
            directory.mkdir(mode=0o700)
            for file, name in ((self._tls.ca, "ca.pem"), (key, "ca.key")):
                shutil.copy(file, directory / name)
        return directory

    def _make(self, name: str, **options: object) -> TLS:
        made = make_certificate(self._ca(), name, **options)  # type: ignore[arg-type]  # of this file alone
        return TLS(made.cert, made.key, made.ca)

    def _make_second(self) -> TLS:
        return make_anonymous_certificate(self._ca(), "second")


class Kit:
    """The ports and the identity of a run. Use it as a context manager. Raises OSError where a port cannot be had."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.standing: Wire | None = None
        """A connection that the peer dialled and the last case left as it was."""
        self.refused = False
        """True once the kit has refused the peer, which may not dial again for minutes then (T-73)."""
        self._waited = False  # for one that was refused, in vain
        self._stack = ExitStack()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        if self.setup.listen is not None:
            host, _ = self.setup.listen
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = self._stack.enter_context(socket.create_server(self.setup.listen, family=family))
        return self

    def __exit__(self, *_exc: object) -> None:
        self.leave()
        self._stack.close()

    @property
    def address(self) -> Address:
        """Our own address. Raises Skipped where the kit does not listen."""
        if self._listener is None:
            raise Skipped("it needs a peer that dials: --listen HOST:PORT")
        host, port, *_ = self._listener.getsockname()
        return host, port

    @cached_property
    def certificates(self) -> Certificates:
        if self.setup.tls is None:
            raise Skipped("it needs TLS")
        return Certificates(self.setup.tls, Path(self._stack.enter_context(TemporaryDirectory(prefix="tolliver-"))))

    def leave(self) -> None:
        """Ends the connection that stands."""
        if self.standing is not None:
            self.standing.close()
            self.standing = None

    def open(self) -> socket.socket:
        """A TCP connection to the peer. Raises Failed where there is none, Skipped where the kit does not dial."""
        if self.setup.dial is None:
            raise Skipped("it needs a peer that listens: HOST:PORT")
        try:
            return socket.create_connection(self.setup.dial, self.setup.patience)
        except OSError as error:
            raise Failed("a peer that listens", str(error)) from error

    def accept(self, patience: float) -> socket.socket:
        """The next TCP connection that the peer dials."""
        host, port = self.address
        assert self._listener is not None
        self._listener.settimeout(1.0 if self._waited else max(patience, 0.01))
        try:
            stream = self._listener.accept()[0]
        except TimeoutError:
            if self.refused:
                self._waited = True
                raise Skipped(
                    "the peer was refused, and dials no more for now: start it anew for --only this"
                ) from None
            raise Failed(f"the peer to dial {host}:{port}", f"no connection for {patience:.0f} s") from None
        self.refused = self._waited = False
        return stream

    def pump(self, role: Role, context: ssl.SSLContext | None = None, tls: TLS | None = None) -> AnyPump:
        """TLS for a connection, with this certificate in place of the kit's, or this context."""
        tls = tls or self.setup.tls
        if tls is None:
            return PlainPump()
        if role is Role.LISTEN:
            return Pump.server(context or server_context(tls, alpn=self.setup.alpn))
        assert self.setup.dial is not None
        return Pump.client(context or client_context(tls, alpn=self.setup.alpn), Remote(*self.setup.dial))


class Session(Generic[W]):
    """The connections of one case in one role. They end with the case; one that is as it was may stand on."""

    def __init__(self, kit: Kit, role: Role, make: Make[W]) -> None:
        self.kit, self.role = kit, role
        self.setup = kit.setup
        self.uuid = UUID(int=uuid4().int & ~(0xF << 76) | 0x7 << 76)  # as version 7
        self.opened: list[W] = []
        self._make = make

    def transport(
        self, *, context: ssl.SSLContext | None = None, tls: TLS | None = None, role: Role | None = None,
        patience: float | None = None,
    ) -> W:  # fmt: skip
        """A connection whose TLS stands. Raises Failed where it fails."""
        role = role or self.role
        deadline = monotonic() + (self.setup.redial if patience is None else patience)
        while True:
            wire = self.begin(context=context, tls=tls, role=role, patience=deadline - monotonic())
            if wire.shake():
                return wire
            if role is not Role.LISTEN or monotonic() > deadline:  # a dial that waited too long is dialled again
                raise wire.failed("TLS to be made")

    def begin(
        self, *, context: ssl.SSLContext | None = None, tls: TLS | None = None, role: Role | None = None,
        patience: float | None = None,
    ) -> W:  # fmt: skip
        """A connection of which TCP stands and TLS does not yet."""
        role = role or self.role
        self.kit.leave()
        patience = self.setup.redial if patience is None else patience
        stream = self.kit.open() if role is Role.DIAL else self.kit.accept(patience)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = self._make(stream, self.kit.pump(role, context, tls), self.setup.patience)
        self.opened.append(wire)
        return wire

    def keep(self) -> None:
        """A connection that the case left as it was may stand on."""

    def close(self) -> None:
        """Ends what the case left open."""
        for wire in self.opened:
            if wire is not self.kit.standing:
                with suppress(Failed, OSError):
                    wire.close()
