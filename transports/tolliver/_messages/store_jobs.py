"""Store jobs: commits and reads of a node, off the loop.

A job only calls the store; its result is reported to the node on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from tolliver_proto import Commit, Fetch, Node, NoticeKind, TolliverError
from tolliver_proto.node import Histogram
from tolliver_proto.store import Find, Store, StoreMessages

from .._driver.adapter import Done, Job

_TRY_AGAIN = 1.0  # least seconds between two tries
News = Callable[[], Iterable[tuple[NoticeKind, str]]]


class CommitCounts:
    """Number and durations of commits.

    `failure` is the error of the last commit, None after a success. A failed commit of messages is kept until one that
    stores messages succeeds: a full disk refuses those first, while other commits still have space (D-13).
    """

    def __init__(self) -> None:
        self.commits = 0
        self.failed = 0
        self.failure: TolliverError | None = None
        self._lacks_room = False
        self.seconds = Histogram()
        self.sync_seconds = Histogram()
        self.messages = Histogram(Histogram.COUNTS)

    def fail(self, action: Commit, error: TolliverError) -> None:
        """Count a commit that failed with `error`."""
        self._lacks_room = self._lacks_room or _stores(action)
        self.failure = error
        self.failed += 1

    def mended(self) -> None:
        """Clear the failure: messages can be stored again."""
        self.failure, self._lacks_room = None, False

    def add(self, action: Commit, seconds: float, sync_seconds: float) -> None:
        """Count a successful commit: its seconds, and `sync_seconds`, the part of them that ending the transaction
        took.
        """
        if self.failure is not None and (not self._lacks_room or _stores(action)):
            self.mended()
        self.commits += 1
        self.seconds.add(seconds)
        self.sync_seconds.add(sync_seconds)
        self.messages.add(sum([len(one.messages) for one in action.operations if type(one) is StoreMessages]))


def _stores(action: Commit) -> bool:
    return any(type(one) is StoreMessages for one in action.operations)


class StoreJobs:
    """Runs a node's commits, fetches and searches on the store.

    `run` is the adapter's `store`; `news` returns the store's notices since its last call.
    """

    def __init__(
        self,
        node: Node,
        store: Store,
        run: Callable[[Job, Done], None],
        news: News,
        synced: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`synced` returns the seconds that ending the last transaction took."""
        self.counts = CommitCounts()
        self._synced = synced
        self._node = node
        self._store = store
        self._run = run
        self._news = news
        self._tries_after = 0.0
        self._has_ended = False

    def end(self) -> None:
        """Begin no further commit: calls that wait for one are told that nothing of them is stored."""
        self._has_ended = True

    def try_again(self, try_it: Job) -> None:
        """Probe a failed store with an empty commit. An instance whose store failed is not ready, so it may get no
        messages, and without a probe would never notice that the store works again."""
        now = monotonic()
        if now < self._tries_after:
            return
        self._tries_after = now + _TRY_AGAIN

        def done(_result: None, error: TolliverError | None) -> None:
            if error is None:
                self.counts.mended()
            self._tell_news()

        self._run(try_it, done)

    def commit(self, action: Commit) -> None:
        if self._has_ended:
            return
        took: list[float] = []

        def work() -> None:
            began = monotonic()
            self._store.commit(action.operations)
            took.append(monotonic() - began)

        def done(_result: None, error: TolliverError | None) -> None:
            if error is None:
                self.counts.add(action, took[0], self._synced())
                self._node.committed(action.batch_id, monotonic())
            else:
                self.counts.fail(action, error)
                self._node.store_failed(action.batch_id, error, monotonic())
            self._tell_news()

        self._run(work, done)

    def fetch(self, action: Fetch) -> None:
        def done(rows: Any, error: TolliverError | None) -> None:
            if error is None:
                self._node.fetched(action.peer, rows, monotonic())
            else:
                self._node.fetch_failed(action.peer, error, monotonic())

        bounds = (action.peer, action.after_seq, action.max_count, action.max_bytes)
        self._run(lambda: self._store.fetch(*bounds), done)

    def find(self, action: Find) -> None:
        def done(rows: Any, error: TolliverError | None) -> None:
            self._node.found(action.search_id, rows or [], error, monotonic())

        self._run(lambda: action.ask(self._store), done)

    def _tell_news(self) -> None:
        for kind, detail in self._news():
            self._node.notice(kind, detail)
