"""What every test may use."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.certificates import Certificates

settings.register_profile("tolliver", deadline=None)  # a busy machine must not fail a test
settings.load_profile("tolliver")


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA and its members, made once per test process: `.tls("alice")`, `.uuid("alice")`."""
    return Certificates(tmp_path_factory.mktemp("certificates"))
