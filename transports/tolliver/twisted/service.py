"""Services for `twistd` that open an instance, or streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from tolliver_proto import ConnectionClosing

from .._driver.pending import PendingCall
from .._options.instance import InstanceOptions
from .._options.streams import StreamsOptions
from .instance import Instance
from .opening import create_instance
from .streams import Streams
from .streams_opening import create_streams
from .wire import follow, wait_for


class Closing(Protocol):
    """The part of an instance, or of streams, that a service uses to close it."""

    def close(self) -> Deferred[None]: ...


E = TypeVar("E", bound=Closing)


class EndpointService(Service, Generic[E]):
    """Base of the services: opens an endpoint when its parent service starts, and closes it at the stop. `create` makes
    the endpoint at each start; `title` names it in the log.
    """

    _log = Logger()

    def __init__(self, create: Callable[[], Deferred[E]], title: str, reactor: Any) -> None:
        self._create = create
        self._title = title
        self._reactor = reactor
        self._opened_call = PendingCall[E]()
        self._opening: Deferred[None] = succeed(None)
        self._endpoint: E | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._endpoint or 'not open'}>"

    def when_open(self) -> Deferred[E]:
        """Fires with the endpoint once it is open. Fails with the error of opening, which is logged, too."""
        return wait_for(self._opened_call, self._reactor)

    def startService(self) -> None:
        """Start opening; `when_open` fires at its end."""
        super().startService()
        self._opening = self._create().addCallbacks(self._opened, self._failed)

    def stopService(self) -> Deferred[None]:
        """Close the endpoint; fires when it is closed."""
        super().stopService()
        closing = self._opening.addCallback(lambda _: self._close())
        return wait_for(follow(PendingCall(), closing), self._reactor)

    def _opened(self, endpoint: E) -> None:
        self._endpoint = endpoint
        self._opened_call.resolve(endpoint)

    def _failed(self, failure: Failure) -> None:
        self._log.failure("{title} was not opened", failure, title=self._title)
        self._opened_call.fail(failure.value or ConnectionClosing(f"{self._title} was not opened"))

    def _close(self) -> Deferred[None]:
        self._opened_call = PendingCall()
        endpoint, self._endpoint = self._endpoint, None
        return succeed(None) if endpoint is None else endpoint.close()


class TolliverService(EndpointService[Instance]):
    """An instance as a service, for `twistd` and other parent services."""

    def __init__(self, options: InstanceOptions, reactor: Any = None) -> None:
        title = f"The tolliver instance {options.database}"
        super().__init__(lambda: create_instance(options, reactor), title, reactor)

    @property
    def instance(self) -> Instance | None:
        """The instance; None unless it is open."""
        return self._endpoint


class StreamsService(EndpointService[Streams]):
    """Streams as a service, for `twistd` and other parent services."""

    def __init__(self, options: StreamsOptions, reactor: Any = None) -> None:
        title = f"What listens for streams on {options.listen}"
        super().__init__(lambda: create_streams(options, reactor), title, reactor)

    @property
    def streams(self) -> Streams | None:
        """The streams; None unless they are open."""
        return self._endpoint
