"""Commands with connections: options of instances, and signals."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from attrs import define, evolve

from tolliver_proto import Acl, NoticeKind, Revision
from tolliver_proto.node import DialCause
from tolliver_proto.reactive import DialFailure

from .._extras import needs_posix
from .._options.acl_file import load_acl
from .._options.instance import DEFAULT_PORT, TLS, InstanceOptions, Remote
from .._options.reading import arguments, parse
from .._tls.policy import Pumps
from ..anyio import run as run_loop
from ..derived import derived_identity
from . import words
from .standard import off_the_loop

if TYPE_CHECKING:
    from logging import LogRecord

T = TypeVar("T")
_NO_DATABASE = "no database: give --database FILE (with --certs and --name there is a default)"
_SECOND = (
    "a second one beside it would take over what its peers keep for it. Give --database FILE, that instance's "
    "own, while it is not running; or send with a certificate for many senders: tolliver certs DIR NAME --derive"
)


@define(frozen=True)
class Identity:
    """Certificate, key and CA of an instance, or that it uses plaintext, as given on the command line."""

    certs: Path | None
    name: str | None
    cert: Path | None
    key_file: Path | None
    ca: Path | None
    plaintext: bool
    tls_flags: Mapping[str, Any]

    @property
    def is_given(self) -> bool:
        return any((self.certs, self.name, self.cert, self.key_file, self.ca, self.plaintext))

    def tls(self) -> TLS | None:
        """TLS options, None for plaintext. Raises ValueError if something is missing or given twice."""
        files = self._files()
        more = {key.removeprefix("tls."): value for key, value in parse(self.tls_flags).items()}
        if files is None:
            if more:
                raise ValueError(f"--tls.{next(iter(more)).replace('_', '-')} with --plaintext: there is no TLS then")
            return None
        return evolve(files, **more)

    def _files(self) -> TLS | None:
        short, long = (self.certs, self.name), (self.cert, self.key_file, self.ca)
        ways = [any(part is not None for part in short), any(part is not None for part in long), self.plaintext]
        if sum(ways) != 1:
            raise ValueError(
                f"{'no certificates' if not any(ways) else 'more than one way to say who this is'}: give either "
                "--certs DIR --name NAME, or --cert, --key-file and --ca, or for a trial on one machine --plaintext"
            )
        if self.certs is not None and self.name is not None:
            return TLS(self.certs / f"{self.name}.pem", self.certs / f"{self.name}.key", self.certs / "ca.pem")
        if self.cert is not None and self.key_file is not None and self.ca is not None:
            return TLS(self.cert, self.key_file, self.ca)
        if self.plaintext:
            return None
        raise ValueError("half of the certificates: --certs goes with --name, and --cert with --key-file and --ca")


@define(frozen=True)
class Meeting:
    """The options of a command that connects, as given on the command line: identity, and the peers to dial or listen
    for.
    """

    identity: Identity
    listen: str | None
    connect: Sequence[str]
    acl: Path | None
    spki: str | None

    def remotes(self, default_port: int = DEFAULT_PORT) -> list[Remote]:
        """Remotes to dial, with `default_port` where none is given. Raises ValueError for an invalid one."""
        remotes = [Remote.parse(address, default_port) for address in self.connect]
        if self.spki is None:
            return remotes
        if len(remotes) != 1:
            raise ValueError("--spki pins the one peer of --connect: where there are several, write HEX@HOST:PORT")
        try:
            return [evolve(remotes[0], spki_sha256=bytes.fromhex(self.spki))]
        except ValueError:
            raise ValueError(
                f"--spki {self.spki!r:.100}: give the 64 hexadecimal digits that `tolliver pin` prints"
            ) from None

    def common(self) -> dict[str, Any]:
        """Options common to messages, streams and stages: listening address, TLS, access rules.

        Raises ValueError if something is missing or given twice, and OSError.
        """
        rules = load_acl(self.acl) if self.acl is not None else Acl()
        return {"listen": self.listen, "tls": self.identity.tls(), "plaintext": self.identity.plaintext, "acl": rules}


@define(frozen=True, kw_only=True)
class Place:
    """The options of a command that opens an instance, as given on the command line: identity, peers and database."""

    meeting: Meeting
    database: Path | None
    revision: Revision
    flags: Mapping[str, Any]
    record: Path | None

    @property
    def remotes(self) -> list[Remote]:
        return self.meeting.remotes()

    def options(self, *, dial: bool, usual: Mapping[str, Any] | None = None) -> InstanceOptions:
        """Options of the instance. Raises ValueError if something is missing or given twice.

        `dial`: dial from the start; `usual`: defaults by key for options that are not given.
        """
        if self.meeting.listen is None and not self.meeting.connect:
            raise ValueError("nobody to talk to: give --listen HOST:PORT, or --connect HOST:PORT, or both")
        common = self.meeting.common()
        options = InstanceOptions(
            database=self._database(),
            revision=self.revision,
            remotes=self.remotes if dial else (),
            record=self.record,
            **common,
            **arguments({**(usual or {}), **parse(self.flags)}),
        )
        for remote in self.remotes:
            options.remote(remote)
        return options

    @contextmanager
    def once(self, *, waits: bool, usual: Mapping[str, Any] | None = None) -> Iterator[InstanceOptions]:
        """Context manager: options of an instance that ends with the command, never a second one with the same UUID
        (T-61).

        With a database given, it is that database's instance. Else it gets a temporary database and an identity of its
        own, which the certificate must allow, and `waits` must be True, as unsent messages would be lost. Raises
        ValueError if not, CertificateError if the files cannot be read.
        """
        if self.database is not None:
            yield self.options(dial=True, usual=usual)
            return
        if not waits:
            raise ValueError("nothing is kept without a database: give --database FILE with --no-wait")
        if "identity" in self.flags:
            raise ValueError("--identity says whose database it is: give --database FILE with it")
        tls = self.meeting.identity.tls()
        prefixes = sorted(Pumps(tls).identity.prefixes) if tls is not None else []
        if tls is None:
            raise ValueError("no database: give --database FILE")
        if not prefixes:
            raise ValueError(f"{tls.cert} is one instance's own: {_SECOND}")
        with TemporaryDirectory(prefix="tolliver-") as directory:
            yield evolve(
                evolve(self, database=Path(directory) / "once.db").options(dial=True, usual=usual),
                identity=derived_identity(prefixes[0], token_hex(16)),
            )

    def _database(self) -> Path:
        if self.database is not None:
            return self.database
        who = self.meeting.identity
        if who.certs is None or who.name is None:
            raise ValueError(_NO_DATABASE)
        return who.certs / f"{who.name}.db"


class Interrupted(Exception):
    """SIGINT or SIGTERM arrived; the work was cancelled and has cleaned up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """Exit status, as a shell reports it for a process ended by the signal."""


def run(work: Callable[[], Awaitable[T]], trio: bool, *, watches: bool = False, ends_refused: bool = False) -> T:
    """Run the work on a loop of asyncio, or of trio if that is True; returns its result. Raises Interrupted after a
    signal, and the work's own errors.

    With `watches` signals do not cancel the work, which handles them. With `ends_refused` the work ends with the error
    of the first refused dial, so that need not be logged.
    """
    needs_posix("a command that connects")
    if trio and importlib.util.find_spec("trio") is None:
        raise ValueError("--trio needs trio: pip install trio")
    with off_the_loop(), words.logging_to_stderr(lambda record: not _ends_the_command(record, ends_refused)):
        watched = work if watches else partial(alongside, work, [_signal])
        return run_loop(watched, backend="trio" if trio else "asyncio")


_REFUSALS = frozenset(str(cause) for cause in DialCause if cause.is_refusal)


def _ends_the_command(record: LogRecord, ends_refused: bool) -> bool:
    """True for a log record about a failure that the command itself reports at its end: with `ends_refused` also that
    of a refused dial.
    """
    ends = (NoticeKind.DIAL_GAVE_UP, NoticeKind.NO_RECIPIENTS)
    if ends_refused and getattr(record, "cause", None) in _REFUSALS:  # others may have the field, too
        return True
    return any(each in ends or isinstance(each, DialFailure) for each in record.args or ())


async def reread_rules(acl: Path, apply: Callable[[Acl], object]) -> None:
    """Load the access rules again at each SIGHUP. An error in the file is reported, and changes nothing (D-4)."""
    with anyio.open_signal_receiver(signal.SIGHUP) as hangups:
        words.say(f"access rules of {acl}; SIGHUP reads them again")
        async for _ in hangups:
            try:
                apply(load_acl(acl))
            except (OSError, ValueError) as error:
                words.say(f"the access rules stay as they were: {error}")
            else:
                words.say(f"new access rules of {acl}")


async def alongside(main: Callable[[], Awaitable[T]], others: Iterable[Callable[[], Awaitable[None]]]) -> T:
    """Result of `main`, with the other coroutine functions running meanwhile. Raises the first exception of any, not
    wrapped in a group.
    """
    results: list[T] = []
    failures: list[Exception] = []

    async with anyio.create_task_group() as group:

        async def guard(work: Callable[[], Awaitable[None]]) -> None:
            try:
                await work()
            except Exception as error:
                failures.append(_innermost(error))
                group.cancel_scope.cancel()

        async def keep_result() -> None:
            results.append(await main())

        for other in others:
            group.start_soon(guard, other)
        await guard(keep_result)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return results[0]


def _innermost(error: Exception) -> Exception:
    """The first error in an exception group, or the error itself."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _signal() -> None:
    with signals() as told:
        await told()


@contextmanager
def hangups() -> Iterator[AsyncIterator[signal.Signals]]:
    """Context manager: iterator over SIGHUPs, including those since the start of the process. Afterwards SIGHUP is
    blocked."""
    with anyio.open_signal_receiver(signal.SIGHUP) as come:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        try:
            yield come
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


@contextmanager
def signals() -> Iterator[Callable[[], Awaitable[None]]]:
    """Context manager: handles SIGINT and SIGTERM; its function waits for one and raises Interrupted.

    A second one then has the system's default effect: it ends the process at once.
    """
    with ExitStack() as watching:
        come = watching.enter_context(anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))

        async def told() -> None:
            async for number in come:
                watching.close()
                raise Interrupted(number)

        yield told
