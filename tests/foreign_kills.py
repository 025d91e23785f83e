"""kill -9 of an instance and of a double of another program, while both send to each other.

One process forks the two, kills one of them again and again, and starts it anew. Both write down each message before it
is sent and each one that is handled, before its ack. At the end both live until everything is acknowledged, and the
lists (`lists`) are compared. The seed says which program it is, on which adapter we are, who dials, and who is killed
when.

Today's Go is there as it is, which forgets no connection and so is started again where we are, and mended. It has acks,
so nothing may be lost; Rust has none, so there only what was never sent, or comes twice, is wrong, and that after any
kill something comes through again.

    python -m tests.foreign_kills DIRECTORY KILLS SEED     prints the result as one line of JSON
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from tolliver import anyio, blocking, twisted
from tolliver._options.instance import InstanceOptions, Remote

from tests.adapters.facade import Facade, deadline
from tests.adapters.gopeer import TODAY, Defect, Forms2026, GoPeer, HandshakeFailed, Panicked, go_identity
from tests.adapters.kinds import make_world
from tests.adapters.rustpeer import RustPeer
from tests.certificates import Certificates
from tests.lists import append, whole_lines
from tests.ports import free_port
from tolliver_proto import Delivery, Limits, Policy, RemoteProtocolError, Revision, Subscription, decode
from tolliver_proto.layouts import Dialect
from tolliver_proto.recording import Damage, Direction, read_blocks

ADAPTERS = (anyio.create_instance, blocking.create_instance, twisted.create_instance)  # not in each process anew
KINDS = ("asyncio", "trio", "twisted", "blocking")
LIVES = (0.1, 0.4, 1.0)  # seconds from one kill to the next, at most, and before
MEETING = 20.0  # seconds in which something is to come through each way, mostly
HANDLED = ("we handled", "it handled")
BACKLOG = 200  # messages that wait before a sender goes slowly
RETRY = 0.3  # seconds; Go's own is a second
SETTLING = 120.0  # seconds for the first message, and for draining at the end
SIZES = (0, 10, 3000, 60_000)  # bytes behind the name in one body
PANICKED = 3  # exit status
MOST_DEATHS = 3  # of itself, of which one is too many already
OTHER = UUID("5f0c7f6e-24a5-4d0f-9d7e-8a3a5b1e0c11")
MENDED = TODAY - {
    Defect.SPINS_ON_READ_ERROR,
    Defect.DUPLICATE_PEER,
    Defect.NEVER_CLOSES,
    Defect.OFFLINE_RECIPIENT,
    Defect.SPINS_ON_WRITE_ERROR,
}


class Rig:
    """A directory with certificates, our database, recordings and lists, and the two programs that use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = random.Random(seed)
        self.kind = KINDS[seed % 4]
        self.we_dial = seed // 4 % 2 == 0
        self.is_rust = seed % 3 == 2
        self.is_mended = self.is_rust or seed // 8 % 2 == 1
        self.knows_copies = seed // 16 % 2 == 1
        self.port = free_port()  # of whichever listens
        self.certs = Certificates(directory)
        self.identity = go_identity(self.certs, "go")
        self.ours = UUID(str(self.certs.uuid("left")))
        self.life = 0

    def __str__(self) -> str:
        program = "rust" if self.is_rust else "go, mended" if self.is_mended else "go"
        return f"{program}, {self.kind}, {'we dial' if self.we_dial else 'it dials'}"

    def write(self, name: str, *lines: bytes) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        append(fd, lines)
        os.close(fd)

    def lines(self, name: str) -> list[bytes]:
        return whole_lines(self.directory / name)

    def body(self, rng: random.Random, name: bytes) -> bytes:
        return name + b" " + bytes(rng.choice(SIZES))

    # Our instance.

    def options(self) -> InstanceOptions:
        def handler(delivery: Delivery) -> None:
            self.write("we handled", delivery.body.split(b" ")[0])

        given: dict[str, Any] = {"plaintext": True, "identity": self.ours}
        if not self.is_rust:
            given = {"tls": self.certs.tls("left"), "policy": Policy(dedupe=100_000 if self.knows_copies else 0)}
        subscriptions = (Subscription("back", ""),) if self.is_rust else None
        revision = Revision.RUST_2026 if self.is_rust else Revision.GO_2026
        dialect = Dialect(revision=revision, subscriptions=subscriptions)
        pin = None if self.is_rust else self.identity.spki_sha256
        if self.we_dial:
            given["remotes"] = [Remote("127.0.0.1", self.port, spki_sha256=pin, dialect=dialect)]
        else:
            given |= {"listen": f"127.0.0.1:{self.port}", "dialects": {OTHER: dialect}}
        return InstanceOptions(
            database=self.directory / "ours.db",
            retry_interval=RETRY,
            record=self.directory / "recordings",
            subscriptions=["news"],
            handlers=[("news", "", handler)],
            limits=Limits(redial_max=0.1, close_timeout=0.5),
            **given,
        )

    def be_ours(self, quiet: bool) -> None:
        rng = random.Random(self.life)
        deadline.restart()
        with Facade(make_world(self.kind), self.options()) as node:
            for number in itertools.count():
                deadline.restart()
                if self.lines("the end"):
                    return
                if quiet and not self.is_rust:
                    if node.stats()["pending"] == 0:
                        self.write("we drained", b"%d" % self.life)
                    time.sleep(0.02)
                    continue
                name = b"we.%d.%d" % (self.life, number)
                self.write("we send", name)
                if self.is_rust:
                    node.unreliable_send("back", "", self.body(rng, name))
                elif node.stats()["pending"] < BACKLOG and node.send("back", "", self.body(rng, name)).recipients:
                    self.write("we sent", name)
                time.sleep(0.003)

    # The doubles.

    def be_go(self, quiet: bool) -> None:
        rng = random.Random(self.life)

        def take(body: bytes) -> bool:
            self.write("it handled", body.split(b" ")[0])
            return rng.random() > 0.05  # it refuses some, which come again

        go = GoPeer(
            MENDED if self.is_mended else TODAY,
            self.identity,
            instance_id=OTHER,
            subscriptions=[("back", "")],
            table=[("news", "", self.ours)],
            forms=Forms2026(),
        )
        go.register("", "", take)
        stored, acked = len(self.lines("it sends")), {int(line) for line in self.lines("it was acked")}
        rows = [(at, "news", "", b"it.%d " % at) for at in range(1, stored + 1) if at not in acked]
        go.restore(stored, rows, self.ours)
        with go:
            if self.we_dial:
                go.listen(self.port)
            noted, retried = 0, 0.0
            while True:
                self._look(go)
                if not self.we_dial and not go.connections:
                    with suppress(OSError, HandshakeFailed):
                        go.dial(self.port)
                if go.connections and time.monotonic() > retried + RETRY:
                    retried = time.monotonic()
                    go.retry()
                if go.connections and not quiet and len(go.rows) < BACKLOG:
                    stored += 1
                    self.write("it sends", b"it.%d" % stored)
                    assert go.send("news", "", self.body(rng, b"it.%d" % stored)) == stored
                new = go.acks[noted:]
                noted += len(new)
                self.write("it was acked", *(b"%d" % one for one in new))
                if quiet and not go.rows:
                    self.write("it drained", b"%d" % self.life)
                time.sleep(0.01)

    def _look(self, go: GoPeer) -> None:
        """It dies of what Go dies of."""
        if go.panic is not None:
            os._exit(PANICKED)
        assert not go.stray, f"out of step: {bytes(go.stray)[:20]!r}"
        assert not go.malformed

    def be_rust(self, _quiet: bool) -> None:
        rng, heard = random.Random(self.life), 0
        with RustPeer(OTHER) as rust:
            if self.we_dial:
                rust.listen(self.port)
            for number in itertools.count():
                if not self.we_dial and not rust.connections:
                    with suppress(OSError, EOFError):
                        rust.dial(self.port)
                new = rust.messages[heard:]
                heard += len(new)
                self.write("it handled", *(one.body.split(b" ")[0] for one in new))
                assert not rust.errors, rust.errors
                name = b"it.%d.%d" % (self.life, number)
                for peer in list(rust.connections):
                    self.write("it sends", name)
                    try:
                        rng.choice((rust.send, rust.unreliable_send))(peer, "news", "", self.body(rng, name))
                    except OSError:
                        del rust.connections[peer]
                time.sleep(0.005)

    # The work of the process above them.

    def start(self, who: str, *, quiet: bool = False) -> int:
        self.life += 1
        pid = os.fork()
        if pid:
            return pid
        try:
            be = self.be_ours if who == "we" else self.be_rust if self.is_rust else self.be_go
            self._end_of(be, quiet)
        finally:
            os._exit(1)

    def _end_of(self, be: Callable[[bool], None], quiet: bool) -> NoReturn:
        try:
            be(quiet)
            os._exit(0)
        except Panicked:
            os._exit(PANICKED)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)


class Pair:
    """The two processes, as they live and die."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.pids = {who: rig.start(who) for who in ("we", "it")}
        self.counts = Counter[str]()

    def wait(self, true: Callable[[], object], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            if true():
                return True
            if self.counts["died"] > MOST_DEATHS:
                break
            time.sleep(0.005)
        return False

    def look(self) -> None:
        """Go dies of itself, and is started again as a service is."""
        for who, pid in list(self.pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                died = os.waitstatus_to_exitcode(status)
                self.counts["panics" if died == PANICKED else "died"] += 1
                self.pids[who] = self.rig.start(who, quiet=self.counts["quiet"] > 0)

    def kill(self, who: str) -> None:
        pid = self.pids.pop(who)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def kill_one(self) -> None:
        rng = self.rig.rng
        if rng.random() < 0.7:  # the others die while they open, or shake hands
            before = [len(self.rig.lines(name)) for name in HANDLED]
            self.wait(
                lambda: all(len(self.rig.lines(name)) > count for name, count in zip(HANDLED, before, strict=True)),
                MEETING,
            )
        self.wait(lambda: False, rng.uniform(0, rng.choice(LIVES)))
        who = rng.choice(("we", "it"))
        self.kill(who)
        self.counts[f"kills of {'ours' if who == 'we' else 'theirs'}"] += 1
        if who == "we" and not self.rig.is_mended:  # it would never know
            self.wait(lambda: False, rng.uniform(0, 0.1))
            self.kill("it")
            self.pids["it"] = self.rig.start("it")
        self.pids[who] = self.rig.start(who)

    def settle(self) -> bool:
        """Both anew, until all is acknowledged; with Rust until something has come through each way."""
        for who in list(self.pids):
            self.kill(who)
        self.counts["quiet"] = 1
        begun = self.rig.life
        self.pids = {who: self.rig.start(who, quiet=True) for who in ("we", "it")}
        lists = HANDLED if self.rig.is_rust else ("we drained", "it drained")
        settled = self.wait(lambda: all(_is_since(self.rig.lines(name), begun) for name in lists), SETTLING)
        self.rig.write("the end", b"")  # in order, as what is recorded is written then
        return settled and os.waitstatus_to_exitcode(os.waitpid(self.pids.pop("we"), 0)[1]) == 0


def _is_since(lines: list[bytes], life: int) -> bool:
    return bool(lines) and int(lines[-1].split(b".")[-2 if b"." in lines[-1] else 0]) > life


def recorded(rig: Rig) -> int:
    """Frames of the recordings, read in the layout that each block names. Raises AssertionError for any that is wrong:
    only a file's end may be torn."""
    frames = 0
    revision = Revision.RUST_2026 if rig.is_rust else Revision.GO_2026
    for path in (rig.directory / "recordings").glob("*.rec"):
        for block in read_blocks([path.read_bytes()]):
            if isinstance(block, Damage):
                assert block.torn, f"{path}: {block.detail}"
                continue
            if block.header.peer is not None:
                assert block.header.revision is revision, block.header
            if block.header.peer is not None or block.header.direction is Direction.OUT:
                try:
                    frames += len(decode(block.payload, block.header.revision))
                except RemoteProtocolError as error:
                    raise AssertionError(f"{path}: {error}") from error
    return frames


def run(directory: Path, kills: int, seed: int) -> dict[str, Any]:
    """`failed` is 0 where all went well."""
    rig = Rig(directory, seed)
    pair = Pair(rig)
    try:
        met = pair.wait(lambda: all(map(rig.lines, HANDLED)), SETTLING)
        for _ in range(kills):
            pair.kill_one()
        settled = met and pair.settle()
    finally:
        for who in list(pair.pids):
            pair.kill(who)
    ours, theirs = (Counter(rig.lines(name)) for name in HANDLED)
    must_come = [(set(rig.lines("we sent")), theirs), (set(rig.lines("it sends")), ours)]
    again = sum(one > 1 for handled in (ours, theirs) for one in handled.values())
    unexpected = len(set(theirs) - set(rig.lines("we send"))) + len(set(ours) - set(rig.lines("it sends")))
    lost = 0 if rig.is_rust else sum(len(sent - set(handled)) for sent, handled in must_come)
    frames = recorded(rig)
    wrong = lost or unexpected or pair.counts["died"] or (rig.is_rust and again)
    return {
        **{name: count for name, count in pair.counts.items() if name != "quiet"},
        "rig": {str(rig): 1},
        "failed": int(not settled or not frames or bool(wrong)),
        "kills": kills,
        "messages": sum(len(sent) for sent, _ in must_come),
        "lost": lost,
        "unexpected": unexpected,
        "twice": again,
        "recorded": frames,
    }


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  # its only output
