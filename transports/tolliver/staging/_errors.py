"""Errors of a stage."""

from __future__ import annotations

from tolliver_proto import StoreError


class UnknownStage(StoreError):
    """The directory is no stage, or has a layout of another version. Nothing in it was changed."""


class StageInUse(StoreError):
    """Another process receives into this stage: a stage has only one receiver."""


class StageFull(StoreError):
    """The disk accepted no data for too long. Unacknowledged messages stay with the peers."""


class StageLost(StoreError):
    """The messages at a position are missing: deleted, cut, damaged, or in another stage."""
