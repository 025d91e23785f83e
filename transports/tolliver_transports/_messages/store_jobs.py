"""Store jobs: commits and reads of a node, off the loop.

A job does nothing but call the store, and its result is told to the node on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from tolliver_proto import Commit, Fetch, Find, Node, NoticeKind, Store, TolliverError

from .._driver.adapter import Done, Job

News = Callable[[], Iterable[tuple[NoticeKind, str]]]


class StoreJobs:
    """Commits, fetches and finds. `run` is the world's `store`; `news` gives what the store has to tell since it was
    asked last."""

    def __init__(self, node: Node, store: Store, run: Callable[[Job, Done], None], news: News) -> None:
        self._node = node
        self._store = store
        self._run = run
        self._news = news

    def commit(self, action: Commit) -> None:
        def done(_result: None, error: TolliverError | None) -> None:
            if error is None:
                self._node.committed(action.batch_id, monotonic())
            else:
                self._node.store_failed(action.batch_id, error, monotonic())
            for kind, detail in self._news():
                self._node.notice(kind, detail)

        self._run(lambda: self._store.commit(action.operations), done)

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
