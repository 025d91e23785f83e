"""Errors of a stage."""

from __future__ import annotations

from tolliver_proto import StoreError


class UnknownStage(StoreError):
    """The directory is no stage, or one of a layout that is not known here. Nothing in it was touched."""


class StageInUse(StoreError):
    """Another process receives into this stage: a stage has one receiver."""


class StageFull(StoreError):
    """The disk has taken nothing for too long. Unacknowledged messages stay with the peers."""


class StageLost(StoreError):
    """The messages at a position are not there: deleted, cut, damaged, or in another stage."""
