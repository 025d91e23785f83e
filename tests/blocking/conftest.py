"""Fixtures of the tests on threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blocking.nodes import Nodes
from tests.certificates import Certificates


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates) -> Nodes:
    return Nodes(tmp_path, certs)
