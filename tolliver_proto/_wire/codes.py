"""Values of an enumeration in frames, and the revisions of their layout.

They stay Python's own in a compiled build, which would take no other value there: a layout may have one that is not
ours.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Revision(IntEnum):
    """Revision of the wire layout: configuration, never negotiated (C6). GO and RUST revisions are other programs'."""

    DRAFT_1 = 1
    DRAFT_2 = 2
    GO_SEED = 3
    GO_D05F89B = 4
    GO_499B76D = 5
    GO_2026 = 6
    RUST_2026 = 7
    DRAFT_2_LETTER = 8
    """Draft 2 to the letter: an entry of a handshake's list has the code of a subscription in front (T-04)."""


class HandshakeStatus(IntEnum):
    """Status of a handshake response, from the responder's point of view (version table, T-60)."""

    SAME_VERSION = 0
    NEWER_COMPATIBLE = 1
    NEWER_INCOMPATIBLE = 2
    OLDER = 3
    FAILED = 4
    """A failure for another reason than the versions. The drafts have no code for it."""


class IgnoreReason(StrEnum):
    """Reason for which a whole frame was not understood."""

    BAD_TEXT = "bad_text"  # T-10: channel or key is not UTF-8
    BAD_CONTROL = "bad_control"  # T-20: unknown code, wrong length, or not UTF-8
    CONTROL_KEY = "control_key"  # T-27: a control message with a key
