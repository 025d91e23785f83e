"""Rotation of certificates under load, in the small; `scripts/prove/rotations.py` has the large form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.rotating import rotate


@pytest.mark.thorough
def test_nothing_is_lost_while_certificates_are_renewed(tmp_path: Path) -> None:
    figures = rotate(tmp_path, rotations=2, lifetime=600.0)
    assert (figures.rotations, figures.lost) == (2, 0)
    assert figures.messages
