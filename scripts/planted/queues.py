"""Bugs in work queues: owners of jobs, leases, and workers that are cut off."""

from __future__ import annotations

from .bug import Bug

LEDGER = "tolliver_proto/_node/outboxes/ledger.py"
QUEUEING = "tolliver_proto/_patterns/queues.py"
TESTS = ("tests/patterns/test_queues.py",)

BUGS = (
    Bug(
        "a job that moves is nobody's for a while",
        LEDGER,
        "move",
        "(AddDeliveries(target.uuid, rows), RemoveDeliveries(source.uuid, spans))",
        "(RemoveDeliveries(source.uuid, spans),)",
        TESTS,
    ),
    Bug(
        "a job is assigned twice: who had it before keeps it",
        LEDGER,
        "move",
        "(AddDeliveries(target.uuid, rows), RemoveDeliveries(source.uuid, spans))",
        "(AddDeliveries(target.uuid, rows),)",
        TESTS,
    ),
    Bug(
        "a move that fails is believed",
        LEDGER,
        "_moved",
        "if error is None:\n    then(None, self._hand_over(target, messages))\n    return",
        "then(None, self._hand_over(target, messages))\nreturn",
        TESTS,
    ),
    Bug(
        "a lease never ends",
        QUEUEING,
        "_on_lease_timeout",
        "worker.lease_over = True",
        "pass",
        TESTS,
    ),
    Bug(
        "after a restart there are no leases",
        "tolliver_proto/_patterns/queues.py",
        "work_queue",
        'self._timers.set(("lease", (channel, one.uuid)), self._kernel.now + lease)',
        "pass",
        TESTS,
    ),
    Bug(
        "a worker that is cut off goes on",
        "tolliver_proto/_patterns/work.py",
        "_on_cut_timeout",
        "self._kernel.tell(TakeBack(work.handler, uuid))",
        "pass",
        TESTS,
    ),
    Bug(
        "who does not work any more acknowledges jobs",
        "tolliver_proto/_patterns/work.py",
        "judges",
        "Fate.STUCK if is_unwanted and channel in self._worked else verdict",
        "verdict",
        TESTS,
    ),
)
