"""Bugs in `tolliver run`: its files and its functions."""

from __future__ import annotations

from .bug import Bug

DELIVERING = "tests/cli/test_delivering.py::"

BUGS = (
    Bug(
        "what another program has written is cut off",
        "transports/tolliver/_cli/appending.py",
        "_take_back",
        "os.fstat(fd).st_size == end + len(written) and os.pread(fd, len(written), end) == written",
        "True",
        (DELIVERING + "test_what_another_program_has_written_meanwhile_is_not_cut_off",),
    ),
    Bug(
        "a function that cancels itself ends its table",
        "transports/tolliver/_cli/delivering.py",
        "handle",
        "self._stopping or not ends.is_interrupt(error)",
        "True",
        (DELIVERING + "test_whatever_a_function_raises_is_a_failed_attempt[1]",),
    ),
)
