"""Fixtures of the staging tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blocking.nodes import Nodes
from tests.certificates import Certificates


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates) -> Nodes:
    """The senders."""
    return Nodes(tmp_path, certs)
