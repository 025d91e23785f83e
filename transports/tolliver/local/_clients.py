"""Clients of local programs, with calls that block and with coroutines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from tolliver_proto.node import check_seconds, check_type, listed

from .._local import asking
from .._local.asking import TIMEOUT, Times, To, Tries, checked_path
from .._local.envelopes import Ask, Item, LocalReceipt, LocalReply, Verb
from ..codecs._bodies import encoded, encoded_items
from ..codecs._codec import BYTES, AnyCodec, coding_of
from . import _blocking

if TYPE_CHECKING:
    from ..outbox import Outbox
    from . import _anyio
    from ._relay import LocalRelay

T = TypeVar("T")
_HELLO = Ask(Verb.SEND, (), {})


def connect(path: str | os.PathLike[str], *, timeout: float = TIMEOUT) -> Connecting:
    """A client of the instance that accepts local programs at this path, with or without "unix:" before it.

    `with connect(path) as me` is for threads, which may share it; `async with` for asyncio and trio. Entering connects,
    and raises ConnectionLost if no instance is there. `timeout` is for entering and for each call, in seconds: a client
    whose instance is started again connects to it again.

    Raises TypeError and ValueError, also for a path that is too long for a Unix socket.
    """
    check_seconds("timeout", timeout)
    return Connecting(checked_path(path), timeout)


class Connecting:
    """A client that is not connected yet, from `connect`: enter it."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None

    def __enter__(self) -> Client:
        self._client = Client(self._path, self._timeout)
        return self._client.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._client is not None:
            self._client.close()

    async def __aenter__(self) -> AsyncClient:
        self._async_client = AsyncClient(self._path, self._timeout)
        return await self._async_client.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        if self._async_client is not None:
            await self._async_client.close()


class _BaseClient:
    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._relays: list[LocalRelay] = []

    def _tries(self, ask: Ask, seconds: float | None = None) -> Tries:
        return Tries(self._path, ask, self._timeout if seconds is None else seconds)

    def relay(self, outbox: Outbox) -> LocalRelay:
        """Have the instance send the rows of an outbox of the program's own database, like `Instance.relay`.

        Until this client is closed, on a thread and a connection of its own. Rows on the channel of a queue are jobs.
        """
        from ._relay import LocalRelay  # imported late: most programs never need it

        relay = LocalRelay(self._path, self._timeout, outbox)
        self._relays.append(relay)
        return relay

    def _close_relays(self) -> None:
        for relay in self._relays:
            relay.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of the instance at {self._path}>"


class Client(_BaseClient):
    """A client of the instance at a Unix socket, for threads: `with connect(path) as me`.

    A call returns when the instance has answered: what has recipients then is on the instance's disk. Each call raises
    the errors of the instance's call of that name; TimeoutError, after which the same message key asks again; and
    ConnectionLost if the connection ended before the answer and there is no message key, or the instance did not come
    back in time. With a message key it asks again by itself, and the message is stored once.
    """

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__(path, timeout)
        self._conversation = _blocking.Conversation(path)

    def __enter__(self) -> Self:
        self._conversation.open(self._tries(_HELLO))
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect. Calls that wait raise ConnectionLost. A second call does nothing."""
        self._close_relays()
        self._conversation.close()

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        message_key: str | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Have a message stored for every peer that subscribes to it, like `Instance.send`; returns its receipt."""
        ask = asking.send(
            channel, key, body, message_key, require_recipients, to, expire_after, Times(after, not_before)
        )
        return cast("LocalReceipt", self._conversation.do(ask, self._tries(ask)))

    def send_many(
        self, items: Iterable[Item], *, require_recipients: int = 0, to: To = None, expire_after: float | None = None
    ) -> LocalReceipt:
        """Have (channel, key, body) items stored in one commit, all or none, like `Instance.send_many`: 16 MiB of them
        at most."""
        ask = asking.send_many(items, require_recipients, to, expire_after)
        return cast("LocalReceipt", self._conversation.do(ask, self._tries(ask)))

    def put(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Have a job put into a work queue of the instance, like `WorkQueue.put`; `key` is the job's."""
        ask = asking.put(channel, key, body, message_key, Times(after, not_before))
        return cast("LocalReceipt", self._conversation.do(ask, self._tries(ask)))

    def request(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        timeout: float = 10.0,
        message_key: str | None = None,
        durable: bool = False,
        to: To = None,
    ) -> LocalReply:
        """Ask a peer that responds, like `Instance.request`; returns its answer."""
        ask, seconds = asking.request(channel, key, body, timeout, message_key, durable, to)
        return cast("LocalReply", self._conversation.do(ask, self._tries(ask, seconds)))

    @overload
    def channel(self, name: str) -> Channel[bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T]) -> Channel[T]: ...

    def channel(self, name: str, *, codec: AnyCodec[Any] | None = None) -> Channel[Any]:
        """A channel with typed values, which the codec encodes; without a codec, values are bytes."""
        return Channel(self, name, codec)


class AsyncClient(_BaseClient):
    """A client of the instance at a Unix socket, for asyncio and trio: `async with connect(path) as me`.

    As `Client`, with coroutines. It has no task of its own: one task may open it, and another one close it. A cancelled
    call may still be done.
    """

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__(path, timeout)
        from . import _anyio  # imported late: threads do not need it

        self._conversation: _anyio.Conversation = _anyio.Conversation(path)

    async def __aenter__(self) -> Self:
        await self._conversation.open(self._tries(_HELLO))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect. Calls that wait raise ConnectionLost. A second call does nothing."""
        if self._relays:
            from anyio import to_thread  # imported late: threads do not need it

            await to_thread.run_sync(self._close_relays)
        self._conversation.close()

    async def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        message_key: str | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Have a message stored for every peer that subscribes to it, like `Instance.send`; returns its receipt."""
        ask = asking.send(
            channel, key, body, message_key, require_recipients, to, expire_after, Times(after, not_before)
        )
        return cast("LocalReceipt", await self._conversation.do(ask, self._tries(ask)))

    async def send_many(
        self, items: Iterable[Item], *, require_recipients: int = 0, to: To = None, expire_after: float | None = None
    ) -> LocalReceipt:
        """Have (channel, key, body) items stored in one commit, all or none, like `Instance.send_many`: 16 MiB of them
        at most."""
        ask = asking.send_many(items, require_recipients, to, expire_after)
        return cast("LocalReceipt", await self._conversation.do(ask, self._tries(ask)))

    async def put(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Have a job put into a work queue of the instance, like `WorkQueue.put`; `key` is the job's."""
        ask = asking.put(channel, key, body, message_key, Times(after, not_before))
        return cast("LocalReceipt", await self._conversation.do(ask, self._tries(ask)))

    async def request(
        self,
        channel: str,
        key: str,
        body: bytes,
        *,
        timeout: float = 10.0,
        message_key: str | None = None,
        durable: bool = False,
        to: To = None,
    ) -> LocalReply:
        """Ask a peer that responds, like `Instance.request`; returns its answer."""
        ask, seconds = asking.request(channel, key, body, timeout, message_key, durable, to)
        return cast("LocalReply", await self._conversation.do(ask, self._tries(ask, seconds)))

    @overload
    def channel(self, name: str) -> AsyncChannel[bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T]) -> AsyncChannel[T]: ...

    def channel(self, name: str, *, codec: AnyCodec[Any] | None = None) -> AsyncChannel[Any]:
        """A channel with typed values, which the codec encodes; without a codec, values are bytes."""
        return AsyncChannel(self, name, codec)


class _BaseChannel(Generic[T]):
    def __init__(self, name: str, codec: AnyCodec[T] | None) -> None:
        check_type("name", name, str, "the name of the channel")
        self._name = name
        self._codec = cast("AnyCodec[T]", BYTES) if codec is None else codec
        coding_of(self._codec)  # raises TypeError for an invalid codec

    @property
    def name(self) -> str:
        """Name of the channel."""
        return self._name

    def _encoded(self, key: str, value: T) -> bytes:
        return encoded(self._codec, self._name, key, value)

    def _items(self, items: Iterable[tuple[str, T]]) -> list[Item]:
        return encoded_items(self._codec, [(self._name, *item) for item in listed("items", items)])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r:.100}>"


class Channel(_BaseChannel[T]):
    """One channel of a `Client` with values of type T: `me.channel(name, codec=codec)`.

    Its calls are those of the client, without the channel's name. A value that the codec cannot encode raises
    BodyNotEncoded.
    """

    def __init__(self, client: Client, name: str, codec: AnyCodec[T] | None) -> None:
        super().__init__(name, codec)
        self._client = client

    def send(
        self,
        key: str,
        value: T,
        *,
        message_key: str | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Like `Client.send`."""
        return self._client.send(
            self._name,
            key,
            self._encoded(key, value),
            message_key=message_key,
            require_recipients=require_recipients,
            to=to,
            expire_after=expire_after,
            after=after,
            not_before=not_before,
        )

    def send_many(
        self,
        items: Iterable[tuple[str, T]],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> LocalReceipt:
        """Like `Client.send_many`, of (key, value) items."""
        return self._client.send_many(
            self._items(items), require_recipients=require_recipients, to=to, expire_after=expire_after
        )

    def put(
        self,
        key: str,
        value: T,
        *,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Like `Client.put`."""
        return self._client.put(
            self._name,
            key,
            self._encoded(key, value),
            message_key=message_key,
            after=after,
            not_before=not_before,
        )


class AsyncChannel(_BaseChannel[T]):
    """One channel of a `AsyncClient` with values of type T: `me.channel(name, codec=codec)`.

    Its calls are those of the client, without the channel's name. A value that the codec cannot encode raises
    BodyNotEncoded.
    """

    def __init__(self, client: AsyncClient, name: str, codec: AnyCodec[T] | None) -> None:
        super().__init__(name, codec)
        self._client = client

    async def send(
        self,
        key: str,
        value: T,
        *,
        message_key: str | None = None,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Like `AsyncClient.send`."""
        return await self._client.send(
            self._name,
            key,
            self._encoded(key, value),
            message_key=message_key,
            require_recipients=require_recipients,
            to=to,
            expire_after=expire_after,
            after=after,
            not_before=not_before,
        )

    async def send_many(
        self,
        items: Iterable[tuple[str, T]],
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> LocalReceipt:
        """Like `AsyncClient.send_many`, of (key, value) items."""
        return await self._client.send_many(
            self._items(items), require_recipients=require_recipients, to=to, expire_after=expire_after
        )

    async def put(
        self,
        key: str,
        value: T,
        *,
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> LocalReceipt:
        """Like `AsyncClient.put`."""
        return await self._client.put(
            self._name,
            key,
            self._encoded(key, value),
            message_key=message_key,
            after=after,
            not_before=not_before,
        )
