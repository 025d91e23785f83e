"""Fixtures of the tests on threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.blocking.nodes import Nodes, until
from tests.blocking.streams import Blocks, Raw, feeds
from tests.certificates import Certificates


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates) -> Nodes:
    return Nodes(tmp_path, certs)


@pytest.fixture
def raw() -> Iterator[Raw]:
    peer = Raw()
    yield peer
    peer.close()


@pytest.fixture
def blocks() -> Iterator[Blocks]:
    source = Blocks(b"1", b"2", b"3")
    yield source
    source.go_on.set()


@pytest.fixture
def no_feed_is_left() -> Iterator[None]:
    yield
    until(lambda: not feeds())
