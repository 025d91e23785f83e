"""Runs cases, one after the other, and judges each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from . import deliveries, frames, handshakes, lists, stream_edges, streams
from .cases import Case, Failed, Place, Result, Role, Skipped, Verdict
from .flow import Streams
from .kit import Kit, Session, Setup
from .talk import Messages

MESSAGES: Sequence[Case[Messages]] = handshakes.CASES + frames.CASES + lists.CASES + deliveries.CASES
STREAMS: Sequence[Case[Streams]] = streams.CASES + stream_edges.CASES


def run(cases: Sequence[Case[Any]], setup: Setup, make: Callable[[Kit, Role], Session[Any]]) -> Iterator[Result]:
    """The result of each case in each role that the setup has. Raises OSError where the kit cannot listen."""
    with Kit(setup) as kit:
        for case in cases:
            for role in _roles(case, setup):
                yield _judge(case, role, make(kit, role))


def _roles(case: Case[Any], setup: Setup) -> list[Role]:
    """The roles that can be played; or any of the case, which then says why it is skipped."""
    there = {Role.DIAL: setup.dial, Role.LISTEN: setup.listen, Role.BOTH: setup.dial and setup.listen}
    return [role for role in Role if role in case.roles and there[role]] or [min(case.roles)]


def _judge(case: Case[Any], role: Role, session: Session[Any]) -> Result:
    began = monotonic()
    verdict, expected, seen = Verdict.PASSED, "", ""
    try:
        case.script(session)
        session.keep()
    except Failed as failed:
        verdict, expected, seen = Verdict.FAILED, failed.expected, failed.seen
    except Skipped as skipped:
        verdict, seen = Verdict.SKIPPED, str(skipped)
    finally:
        with suppress(OSError):
            session.close()
    session.kit.refused |= role is Role.LISTEN and case.place is Place.REFUSES
    took = monotonic() - began
    return Result(case.id, case.rulings, case.level, case.text, role, verdict, took, expected, seen)


def holds(results: Sequence[Result]) -> bool:
    """True if all that must hold does, of the cases that were run, and there was one."""
    ran = [result for result in results if result.verdict is not Verdict.SKIPPED]
    return bool(ran) and not any(result.verdict is Verdict.FAILED and result.level == "must" for result in ran)
