"""Certificates of a sender and two services that are rotated under load, and messages that are counted.

Three ways at once: the sender is a program that calls `reload_tls()`; `bob` is a `tolliver run` whose files a script
exchanges before it sends SIGHUP; `carol` is one with `reload_every`, and her files lie as in a volume of Kubernetes,
where one rename gives all of them another content. Connections live for moments, so that each generation of
certificates is used; those of the first ones end on the way.
"""

from __future__ import annotations

import base64
import datetime
import json
import signal
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tolliver import blocking
from tolliver.certs import make_ca, make_certificate

from tests.cli.commands import Listener, running
from tests.ports import free_port
from tolliver_proto import Limits, Policy

DAY = datetime.timedelta(days=1)
SECONDS = 120.0
AGE = 2.5  # seconds of a connection: a remote is dialled 30 times a minute at most


class Figures(NamedTuple):
    """The outcome. `lost` and `twice` are of both receivers together."""

    rotations: int
    ended: int
    """Generations of certificates whose time was over at the end."""
    messages: int
    lost: int
    twice: int


class Owner:
    """An instance whose certificate changes: its UUID, and its files."""

    def __init__(self, club: Path, name: str, lifetime: float) -> None:
        self._club = club
        self._name = name
        self._lifetime = datetime.timedelta(seconds=lifetime)
        self._made = 0
        self.uuid: UUID | None = None
        self.home = club / name
        self.home.mkdir()
        self.ends: list[datetime.datetime] = []

    def renew(self) -> Path:
        """A directory with a new pair, under the names that the files are to have."""
        self._made += 1
        now = datetime.datetime.now(datetime.UTC)
        made = make_certificate(
            self._club, f"{self._name}-{self._made}", self.uuid, days=1, valid_from=now - DAY + self._lifetime
        )
        self.uuid = made.uuid
        self.ends.append(now + self._lifetime)
        generation = self.home / f"generation-{self._made}"
        generation.mkdir()
        made.cert.rename(generation / "tls.crt")
        made.key.rename(generation / "tls.key")
        (generation / "ca.crt").write_bytes(made.ca.read_bytes())
        return generation

    def exchange(self) -> None:
        """One file after the other."""
        for path in self.renew().iterdir():
            path.rename(self.home / path.name)

    def mount(self) -> None:
        """All at once, by a link."""
        generation = self.renew()
        link = self.home / "..data.new"
        link.symlink_to(generation.name)
        link.rename(self.home / "..data")
        for path in generation.iterdir():
            if not (self.home / path.name).is_symlink():
                (self.home / path.name).symlink_to(Path("..data", path.name))

    def shows(self, port: int) -> bool:
        """True if what listens there shows the newest certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port)) as sock, context.wrap_socket(sock) as tls:
            shown = tls.getpeercert(binary_form=True) or b""
        return shown == ssl.PEM_cert_to_DER_cert((self.home / "tls.crt").read_text())


def rotate(directory: Path, rotations: int, lifetime: float) -> Figures:
    """Rotations of all three under load. Raises AssertionError where one does not take effect, or nothing arrives."""
    club = directory / "club"
    make_ca(club)
    alice, bob, carol = (Owner(club, name, lifetime) for name in ("alice", "bob", "carol"))
    alice.exchange()
    bob.exchange()
    carol.mount()
    ports = {"bob": free_port(), "carol": free_port()}
    with ExitStack() as stack:
        service = stack.enter_context(_service(directory, bob, ports["bob"], ""))
        stack.enter_context(_service(directory, carol, ports["carol"], 'reload_every = "50ms"\n'))
        options = blocking.InstanceOptions(
            database=directory / "alice.db",
            tls=blocking.TLS(alice.home / "tls.crt", alice.home / "tls.key", alice.home / "ca.crt"),
            policy=Policy(max_connection_age=AGE),
            limits=Limits(redial_first=0.01, redial_max=0.1),
        )
        sender = stack.enter_context(blocking.create_instance(options))
        for port in ports.values():
            sender.new_connection(f"127.0.0.1:{port}", timeout=SECONDS)
        sender.wait_subscribed("load", "k", peers=2, timeout=SECONDS)
        load = _Load(sender)
        for _ in range(rotations):
            alice.exchange()
            sender.admin.reload_tls()
            bob.exchange()
            service.process.send_signal(signal.SIGHUP)
            carol.mount()
            load.until(lambda: bob.shows(ports["bob"]) and carol.shows(ports["carol"]))
            load.until(partial(_have_ended, sender, sender.stats().aged_out + 2))
        load.drain()
        sent = {str(number) for number in range(load.sent)}
        now = datetime.datetime.now(datetime.UTC)
        got = [_received(directory / f"{name}.jsonl") for name in ports]
    return Figures(
        rotations,
        sum(end < now for end in bob.ends),
        load.sent,
        sum(len(sent - one.keys()) for one in got),
        sum(one.total() - len(one) for one in got),
    )


class _Load:
    """Reliable messages for as long as something is waited for."""

    def __init__(self, sender: blocking.Instance) -> None:
        self._sender = sender
        self.sent = 0

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < deadline, "the rotation has no effect"
            for _ in range(20):
                self._sender.send("load", "k", str(self.sent).encode())
                self.sent += 1
            time.sleep(0.005)

    def drain(self) -> None:
        deadline = time.monotonic() + SECONDS
        while self._sender.stats().pending:
            assert time.monotonic() < deadline, f"{self._sender.stats().pending} messages are not acknowledged"
            time.sleep(0.01)


def _have_ended(sender: blocking.Instance, connections: int) -> bool:
    """By their age, from the beginning on."""
    return sender.stats().aged_out >= connections


@contextmanager
def _service(directory: Path, owner: Owner, port: int, more: str) -> Iterator[Listener]:
    name = owner.home.name
    path = directory / f"{name}.toml"
    path.write_text(
        f'listen = "127.0.0.1:{port}"\ndatabase = "{name}.db"\nsubscriptions = ["load"]\n{more}'
        f'[deliver]\nfile = "{name}.jsonl"\n'
        f'[tls]\ncert = "club/{name}/tls.crt"\nkey = "club/{name}/tls.key"\nca = "club/{name}/ca.crt"\n'
    )
    with running(directory / f"{name}.out", "run", path) as service:
        yield service
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(SECONDS) == 0


def _received(path: Path) -> Counter[str]:
    """Bodies, with how often each was handled. A message that was acknowledged is in the file."""
    lines = path.read_text().splitlines()
    return Counter(base64.b64decode(json.loads(line)["body"]).decode() for line in lines)
