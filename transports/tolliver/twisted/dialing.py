"""Dialling and listening with Twisted's endpoints, on any reactor.

Names are looked up in the reactor's thread pool, and each address has an endpoint of its own. HostnameEndpoint would do
both, but imports the global reactor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP4ServerEndpoint, TCP6ClientEndpoint, TCP6ServerEndpoint
from twisted.internet.error import CannotListenError, ConnectError
from twisted.internet.threads import deferToThreadPool

from tolliver_proto.errors import CannotListen, OutOfThreads

from .._driver.sockets import FREE_PORTS, LISTENING, is_taken, look_up
from .._driver.threads import starting_thread

BACKLOG = 1024  # accept queue: all peers of a restarted instance dial at once


def in_pool(reactor: Any, job: Callable[[], Any]) -> Deferred[Any]:
    """Run a job in the reactor's thread pool; fires with its result. Also fails with OutOfThreads."""
    pool = reactor.getThreadPool()
    try:
        with starting_thread():
            return deferToThreadPool(reactor, pool, job)
    except OutOfThreads:
        pool.threads[:] = (one for one in pool.threads if one.ident is not None)  # stopping would wait for it
        return fail()


async def connect(reactor: Any, host: str, port: int, factory: Any, seconds: float) -> None:
    """Connect to one address of host and port after the other, sharing `seconds` between them; `factory` gets the
    connection. Raises OSError or ConnectError.
    """
    found = await in_pool(reactor, partial(look_up, host, port))
    for number, (is_v6, address) in enumerate(found, 1):
        make = TCP6ClientEndpoint if is_v6 else TCP4ClientEndpoint
        try:
            await make(reactor, address, port, seconds / len(found)).connect(factory)
        except ConnectError:
            if number == len(found):
                raise
        else:
            return


async def listen(reactor: Any, host: str, port: int, factory: Any, tries: int = FREE_PORTS) -> list[Any]:
    """Listening ports, one for each address of the host, all with one number. With `port` 0 that is any free one, for
    which `tries` are made. Raises CannotListen, and leaves none open.
    """
    ports: list[Any] = []
    try:
        for is_v6, address in await in_pool(reactor, partial(look_up, host, port, LISTENING)):
            make = TCP6ServerEndpoint if is_v6 else TCP4ServerEndpoint
            number = ports[0].getHost().port if ports else port
            ports.append(await make(reactor, number, BACKLOG, address).listen(factory))
    except (OSError, CannotListenError) as error:
        for one in ports:
            await one.stopListening()
        cause = error.socketError if isinstance(error, CannotListenError) else error
        if is_taken(port, cause) and tries > 1:
            return await listen(reactor, host, port, factory, tries - 1)
        text = f"cannot listen on {host}:{port}: {cause}. Choose another port or address"
        raise CannotListen(cause.errno, text) from error
    return ports
