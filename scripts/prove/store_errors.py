"""Errors of the store under two connected instances (V10).

The disk of one is full, locked, limited, filled by its own outbox, or not a database.

    python -m scripts.prove.store_errors

For each trouble: `send` raises StoreError in words, nothing of what it refused is ever delivered, both directions of
the connection go on, and when the cause is gone `send` works and all that was accepted has been handled. A disk that
the outbox has filled drains when its peer is back, through a restart, and has its reserve again (D-13). Exit status 1
where one of these is not so. A full file system needs a user who may mount one.

A trouble is a context in which the sender's database cannot be written; all else is the same for each.
"""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

from tolliver.blocking import TLS, Instance, InstanceOptions, create_instance
from tolliver.certs import make_ca, make_certificate
from tolliver.sqlite import SQLiteStore

from tolliver_proto import Delivery, Limits, NoticeKind, StoreError
from tolliver_proto.errors import DiskFull

SENDS = 3
LARGE = bytes(400_000)
PATIENCE = 30.0  # seconds


class Refused(Exception):
    """Something is not as it must be."""


def must(condition: object, what: str) -> None:
    if not condition:
        raise Refused(what)


def eventually(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        must(time.monotonic() < deadline, what)
        time.sleep(0.01)


# The troubles: each is given the sender and its database.


def pragma(instance: Instance, text: str) -> int:
    """There is no other way to a connection's own limits."""
    return int(instance._core._store._file.connection.execute(f"PRAGMA {text}").fetchone()[0])


@contextmanager
def page_limit(sender: Instance, _database: Path) -> Iterator[None]:
    before = pragma(sender, "max_page_count")
    pragma(sender, f"max_page_count = {pragma(sender, 'page_count') + 5}")
    try:
        yield
    finally:
        pragma(sender, f"max_page_count = {before}")


@contextmanager
def full_disk(_sender: Instance | None, database: Path) -> Iterator[None]:
    ballast = database.with_name("ballast")
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    try:
        yield
    finally:
        ballast.unlink()


def full_disk_of(database: Path) -> AbstractContextManager[None]:
    """Another program takes what is left."""
    return full_disk(None, database)


@contextmanager
def locked(_sender: Instance, database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def file_limit(_sender: Instance, database: Path) -> Iterator[None]:
    """Of this whole process, so that the receiver cannot store either."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (database.with_name(f"{database.name}-wal").stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


TROUBLES: dict[str, tuple[Callable[[Instance, Path], AbstractContextManager[None]], str]] = {
    "max_page_count": (page_limit, "SQLITE_FULL"),
    "full tmpfs": (full_disk, "; free some"),
    "lock of another program": (locked, "SQLITE_BUSY"),
    "RLIMIT_FSIZE": (file_limit, "SQLITE_IOERR_WRITE"),
}


def certify(directory: Path) -> None:
    make_ca(directory)
    for name in ("sender", "receiver"):
        make_certificate(directory, name)


def options_in(directory: Path, name: str, **more: object) -> InstanceOptions:
    tls = TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")
    return InstanceOptions(listen="127.0.0.1:0", tls=tls, **more)  # type: ignore[arg-type]  # attrs checks them


def drains(directory: Path, _trouble: str, database: Path) -> None:
    """The peer is away until the disk is full, and the sender goes on sending when it is back."""
    certify(directory)
    options = partial(options_in, directory)
    limits = Limits(removal_delay=0.001)
    handled: list[bytes] = []
    accepted: list[bytes] = []

    def send(sender: Instance, number: int) -> bool:
        body = b"%d" % number + bytes(500)
        try:
            sender.send("work", "", body)
        except DiskFull:
            return False
        accepted.append(body)
        return True

    with create_instance(options("sender", database=database, limits=limits)) as sender:
        with create_instance(options("receiver", database=directory / "receiver.db")) as receiver:
            receiver.subscribe("work")
            receiver.new_connection(f"127.0.0.1:{sender.addresses[0][1]}", timeout=PATIENCE)
        count = next(number for number in range(10**6) if not send(sender, number))
        must(count > 500, f"the disk is full after {count} messages")
    with (
        full_disk_of(database),
        create_instance(options("sender", database=database, limits=limits)) as sender,
        create_instance(options("receiver", database=directory / "receiver.db")) as receiver,
    ):
        receiver.subscribe("work", handler=lambda delivery: handled.append(delivery.body))
        receiver.new_connection(f"127.0.0.1:{sender.addresses[0][1]}", timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while sender.stats().pending and time.monotonic() < deadline:
            send(sender, len(accepted))
            time.sleep(0.001)
        eventually(lambda: not sender.stats().pending, "it does not drain")
        eventually(lambda: len(set(handled)) == len(accepted), "not all that was accepted is handled")

        def is_reserve_back() -> bool:
            """After the last removal, or once the status is asked for: a reader may have been in the way."""
            sender.status()
            return sender.stats().notices[NoticeKind.RESERVE_RESTORED] > 0

        eventually(is_reserve_back, "the reserve is not back")
        must(sender.stats().notices[NoticeKind.RESERVE_USED], "the disk was never full")
    must(set(handled) == set(accepted), "what is handled is not what was accepted")
    must(database.with_name(f"{database.name}.reserve").exists(), "there is no reserve")


def live(directory: Path, trouble: str, database: Path) -> None:
    make, code = TROUBLES[trouble]
    certify(directory)
    options = partial(options_in, directory)
    handled: list[bytes] = []
    back: list[bytes] = []

    def handle(delivery: Delivery) -> None:
        handled.append(delivery.body[:40].rstrip(b"\0"))

    with (
        create_instance(options("receiver", database=directory / "receiver.db")) as receiver,
        create_instance(options("sender", database=database)) as sender,
    ):
        receiver.subscribe("work", handler=handle)
        sender.subscribe("back", handler=lambda delivery: back.append(delivery.body))
        sender.new_connection(f"127.0.0.1:{receiver.addresses[0][1]}", timeout=PATIENCE)
        sender.wait_acked(sender.send_many([("work", "", b"before %d" % n) for n in range(20)]), timeout=PATIENCE)
        with make(sender, database):
            for number in range(SENDS):
                try:
                    sender.send("work", "", b"refused %d" % number + LARGE)
                except StoreError as error:
                    must(code in str(error) and "; " in str(error), f"the error does not say what to do: {error}")
                else:
                    raise Refused("send returned although the message cannot be on disk")
                if make is file_limit:
                    receiver.unreliable_send("back", "", b"%d" % number)
                else:
                    receiver.wait_acked(receiver.send("back", "", b"%d" % number), timeout=PATIENCE)
                must(sender.unreliable_send("work", "", b"unreliable %d" % number) == 1, "the connection is gone")
        sender.wait_acked(sender.send_many([("work", "", b"after %d" % n) for n in range(20)]), timeout=PATIENCE)
        sender.wait_acked(sender.send("work", "", b"large" + LARGE), timeout=PATIENCE)
        eventually(lambda: len(handled) >= 41 + SENDS, f"not all that was accepted is handled: {len(handled)}")
        eventually(lambda: back == [b"%d" % n for n in range(SENDS)], f"the other direction brought {back}")
    expected = [b"before %d" % n for n in range(20)] + [b"unreliable %d" % n for n in range(SENDS)]
    expected += [b"after %d" % n for n in range(20)] + [b"large"]
    must(sorted(handled) == sorted(expected), f"handled is {sorted(set(handled) ^ set(expected))} off")
    with closing(SQLiteStore(database, instance_id=None)) as store:
        must(all(peer.pending == 0 for peer in store.load().peers.values()), "something is left of what was refused")
        must(not store.unclean and store.check() == [], "the database is not whole")


def not_a_database(_directory: Path, _trouble: str, path: Path) -> None:
    path.write_bytes(b"these are no pages at all" * 1000)
    before = path.read_bytes()
    try:
        with create_instance(InstanceOptions(database=path, plaintext=True)):
            pass
    except StoreError as error:
        must("it is not a database; choose another path" in str(error), str(error))
    else:
        raise Refused("it was opened")
    must(path.read_bytes() == before, "the file was changed")
    path.rename(path.with_name("away"))
    with create_instance(InstanceOptions(database=path, plaintext=True)):
        pass


@contextmanager
def small_disk(directory: Path) -> Iterator[str]:
    """Yields why there is none, or nothing."""
    mount = shutil.which("mount")
    if mount is None:
        yield "there is no mount command"
        return
    directory.mkdir()
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory], capture_output=True, text=True)
    try:
        yield done.stderr.strip()
    finally:
        if not done.returncode:
            subprocess.run(["umount", directory], check=True)


def main() -> int:
    good: list[str] = []
    bad = skipped = 0
    others = {"a disk that the outbox has filled": drains, "a file that is no database": not_a_database}
    for trouble in (*TROUBLES, *others):
        with tempfile.TemporaryDirectory() as scratch, small_disk(Path(scratch) / "disk") as no_disk:
            directory = Path(scratch)
            is_disk = trouble in ("full tmpfs", "a disk that the outbox has filled")
            if is_disk and no_disk:
                print(f"{trouble}: not tried, {no_disk}")
                skipped += 1
                continue
            place = directory / "disk" if is_disk else directory
            try:
                others.get(trouble, live)(directory, trouble, place / "sender.db")
            except (Refused, StoreError, TimeoutError) as error:
                print(f"{trouble}: {type(error).__name__}: {error}")
                bad += 1
            else:
                print(f"{trouble}: refused in words, nothing half-written, the connection lived, all was well after it")
                good.append(trouble)
    print(
        f"result: V10 | {len(good) + bad} troubles, {skipped} not tried | as it must be: {', '.join(good)}; else {bad}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
