"""The seam between the kernel and the patterns above it: a node without them pays nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from tolliver_proto import Deliver, Message, Subscription
from tolliver_proto._node.inboxes.inbox import Fate
from tolliver_proto._node.pattern import Hooks, Pattern
from tolliver_proto._testing.inspection import inside
from tolliver_proto.errors import UndeliveredReason
from tolliver_proto.node import PATTERNS, LastValues, MessageKeys, Queues, QueueWork, Requests

from .play import LOW, Play, every

ROOT = Path(__file__).parents[2]
PATTERNS_ROOM = str(Path("tolliver_proto", "_patterns"))


class Lines:
    """Functions of patterns that are called while this is entered."""

    def __init__(self) -> None:
        self.called: Counter[str] = Counter()

    def __enter__(self) -> Counter[str]:
        sys.setprofile(self._see)
        return self.called

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and PATTERNS_ROOM in frame.f_code.co_filename:
            self.called[frame.f_code.co_qualname] += 1


def a_day_of_messages(play: Play) -> None:
    """A peer comes, gets and gives messages of both kinds, goes, and is forgotten; the node closes."""
    play.call("subscribe", "c", "")
    play.node.register("c", "", "handler")
    wire = play.peer(LOW, ("d", ""))
    play.send("d", "k", b"reliable")
    play.node.unreliable_send("d", "k", b"not", play.now)
    play.run()
    wire.ack(wire.messages()[0])
    (delivered,) = every(wire.send(Message("c", "k", b"in", 1)), Deliver)
    play.call("acknowledge", delivered.deliveries)
    wire.send(Message("other", "k", b"unwanted", 2))
    play.call("flush")
    wire.lose()
    play.send("d", "k", b"waits")
    play.wait(60.0)
    play.call("forget_peer", LOW)
    play.call("close")


def test_a_program_that_uses_no_pattern_runs_none_of_their_lines() -> None:
    play = Play()
    with Lines() as called:
        a_day_of_messages(play)
    assert called == {}
    assert play.node.idle
    assert [play.node.used(kind) for kind in PATTERNS] == [None] * len(PATTERNS)


def test_lines_of_patterns_are_seen() -> None:
    play = Play()
    play.node.use(Requests)
    with Lines() as called:
        a_day_of_messages(play)
    assert called["Requests.peer_down"] > 0


def leaves_a_request(play: Play) -> None:
    play.requests.request("sums", "", b"", 5.0, play.now)


def leaves_a_responder(play: Play) -> None:
    play.requests.respond("sums", "", "responder", play.now)


def leaves_a_job(play: Play) -> None:
    play.queues.work_queue("jobs", now=play.now)
    play.queues.put_many("jobs", [("", b"job")], play.now)


def leaves_a_value(play: Play) -> None:
    play.values.retain("c", "last", b"value", play.now)


def leaves_a_key(play: Play) -> None:
    play.keys.send("tolliver.request/sums", "", b"", "once", play.now)


@pytest.mark.parametrize(
    ("leaves", "kind"),
    [
        (leaves_a_request, Requests),
        (leaves_a_responder, Requests),
        (leaves_a_job, Queues),
        (leaves_a_value, LastValues),
        (leaves_a_key, MessageKeys),
    ],
)
def test_a_node_uses_from_the_start_what_the_store_has(leaves: Callable[[Play], None], kind: object) -> None:
    before = Play()
    before.peer(LOW, ("tolliver.request/sums", ""))
    leaves(before)
    before.run()
    after = before.restart()
    assert [one for one in PATTERNS if after.node.used(one) is not None] == [kind]


def test_a_pattern_is_made_once() -> None:
    node = Play().node
    assert node.used(QueueWork) is None
    work = node.use(QueueWork)
    assert node.use(QueueWork) is work
    assert node.used(QueueWork) is work


def test_a_hook_that_is_not_overridden_is_not_called_and_changes_nothing() -> None:
    play = Play()
    wire = play.peer(LOW)
    link, peer = inside(play.node).context.links[wire.cid], inside(play.node).context.peers[LOW]
    plain, entry = Pattern(), Subscription("c", "")
    hooks = Hooks()
    hooks.add(plain)
    assert {name: getattr(hooks, name) for name in Hooks.__slots__} == dict.fromkeys(Hooks.__slots__, ())
    assert plain.judges("c", "k", Fate.WANTED) is Fate.WANTED
    assert list(plain.acknowledges([])) == []
    assert plain.rescues(peer, []) == []
    answers = (
        plain.comes(link, Message("c", "k", b"", 1)),
        plain.leaves(link, Message("c", "k", b"", 1), Fate.WANTED),
        plain.before_list(link, LOW, frozenset(), print),
        plain.with_list(peer),
        plain.refuses("c"),
        plain.owns("c"),
        plain.keeps("c"),
        plain.holds(entry),
        plain.rows(LOW, (), None),
        plain.given_up(UndeliveredReason.EXPIRED, (1,)),
        plain.waits(),
        plain.busy(),
        plain.unsent(),
        plain.stats(),
    )
    assert not any(answers)


class _Closes(Pattern):
    def closing(self) -> None:
        """Implements `Pattern.closing`."""


def test_the_others_stay_when_one_retires() -> None:
    hooks, stays, retires = Hooks(), _Closes(), _Closes()
    for one in (stays, retires):
        hooks.add(one)
    hooks.remove(retires)
    assert hooks.closing == (stays,)


OF_MORE = re.compile(
    r"tolliver_proto\.testing|_testing\.(?:invariants|world)|import proofs|\.table|test_(?:upkeep|derived)|LastValues"
)
"""Signs of a file of tests that is not of the kernel alone: networks of nodes use all patterns."""


@pytest.mark.thorough
def test_the_kernels_tests_are_green_with_patterns_taken_away(tmp_path: Path) -> None:
    for name in ("tolliver_proto", "transports", "tests", "vectors", "scripts", "pyproject.toml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, tmp_path / name)
    shutil.rmtree(tmp_path / "tolliver_proto" / "_patterns")
    files = sorted((tmp_path / "tests" / "node").rglob("test_*.py"))
    tests = [str(one) for one in files if not OF_MORE.search(one.read_text("utf-8"))]
    assert len(tests) > len(files) // 2
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(tmp_path / "transports")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
