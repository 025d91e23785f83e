"""Readiness: each reason, with its remedy, and options that say what is meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._options.instance import InstanceOptions
from tolliver._status.readiness import not_ready, warnings
from tolliver._store.health import StoreHealth
from tolliver.sqlite import SQLiteStore
from tolliver.status import PeerStatus, QueueStatus, RemoteStatus

from tolliver_proto.node import DialCause, RemoteState

from .samples import PEER, US, peer

LISTENING = ("127.0.0.1:7011",)


def reasons(
    *,
    is_open: bool = True,
    listening: Sequence[str] = LISTENING,
    faults: tuple[str, ...] = (),
    left: float | None = 1e6,
    has_uuid: bool = True,
    crl_left: float | None = None,
    peers: Sequence[PeerStatus] = (),
    queues: Sequence[QueueStatus] = (),
    remotes: Sequence[RemoteStatus] = (),
    behind: float | None = 600.0,
) -> list[str]:
    options = InstanceOptions(plaintext=True, listen="127.0.0.1:0", ready_behind=behind)
    health = StoreHealth(faults)
    found = not_ready(options, is_open, listening, health, left, crl_left, peers, queues, remotes, has_uuid=has_uuid)
    return [*found]


def test_one_that_works_has_no_reason() -> None:
    assert reasons(peers=[peer(oldest_unacknowledged=599.0), peer(oldest_unacknowledged=None)]) == []
    assert reasons(left=None) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (reasons(is_open=False), "it is closed"),
        (reasons(listening=()), "it does not listen"),
        (reasons(faults=("the disk is full: free some",)), "the disk is full: free some"),
        (
            reasons(left=0.0),
            "our own certificate has ended, and peers refuse it: make a new one with the same UUID, and",
        ),
        (reasons(left=0.0, has_uuid=False), "make a new one, and call reload_tls()"),
        (reasons(crl_left=0.0), "our list of revoked certificates (crl) has ended"),
        (reasons(peers=[peer(oldest_unacknowledged=601.0)]), f"{PEER} for 601 s (connected, 3 wait)"),
        (reasons(peers=[peer(oldest_unacknowledged=2.0, connected=False)], behind=1.0), "(away, 3 wait)"),
        (reasons(peers=[peer(full=True)]), f"the last send was refused, for peer {PEER} (connected, 3 wait)"),
        (reasons(queues=[QueueStatus("jobs", 30, 0, 0, 1.0, True)]), "refused, for work queue 'jobs' (30 wait)"),
    ],
)
def test_each_reason_is_one_sentence(found: list[str], words: str) -> None:
    (reason,) = found
    assert words in reason


def test_peers_are_named_as_far_as_that_is_readable() -> None:
    peers = [peer(uuid=UUID(int=number), oldest_unacknowledged=1000.0 + number) for number in range(9)]
    (reason,) = reasons(peers=peers)
    assert f"{UUID(int=8)} for 1008 s" in reason
    assert "6 others" in reason
    assert reasons(peers=peers, behind=None) == []


def remote(number: int, cause: DialCause | None = None, state: RemoteState = RemoteState.WAITING) -> RemoteStatus:
    return RemoteStatus(f"host{number}:7011", state, None, 1, 9.0, cause, f"why {number}" if cause else "")


UP = remote(0, state=RemoteState.CONNECTED)


def test_a_refused_remote_is_a_reason_where_no_remote_is_connected_and_else_a_warning() -> None:
    """T-73. Where one is only away it may be starting, and may wait until this one is ready."""
    refused = remote(1, DialCause.CERTIFICATE)
    for some in ([], [UP], [remote(2, DialCause.REFUSED)], [UP, remote(2, DialCause.CLOSED)]):
        assert (reasons(remotes=some), [*warnings(some)]) == ([], [])
    for away in ([refused], [remote(2, DialCause.REFUSED), refused]):
        (reason,) = reasons(remotes=away)
        assert reason.startswith(
            "no remote is connected, and these are refused, by one side or the other: host1:7011 (w"
        )
        assert [*warnings(away)] == []
    (warning,) = warnings([refused, UP])
    assert reasons(remotes=[refused, UP]) == []
    assert warning.startswith("remotes are refused, by one side or the other: host1:7011 (why 1). Mend ")


def test_refused_remotes_are_named_as_far_as_that_is_readable() -> None:
    (warning,) = warnings([UP, *(remote(number, DialCause.VERSION) for number in range(1, 10))])
    assert "host3:7011 (why 3), 6 others. " in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_this_machine_needs_no_word(host: str) -> None:
    assert InstanceOptions(plaintext=True, status=f"{host}:0").status is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "status.example", "10.0.0.1"])
def test_another_host_is_to_be_meant(host: str) -> None:
    with pytest.raises(ValueError, match="or give the option status_anywhere"):
        InstanceOptions(plaintext=True, status=f"{host}:9464")
    assert InstanceOptions(plaintext=True, status=host, status_anywhere=True).status is not None


@pytest.mark.parametrize("given", ["127.0.0.1:70000", ("127.0.0.1", -1), (1, 2, 3)])
def test_an_address_that_is_none_is_refused(given: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        InstanceOptions(plaintext=True, status=given)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("given", [0, -1.0, "10", True])
def test_a_bound_is_a_positive_number_of_seconds(given: object) -> None:
    with pytest.raises((ValueError, TypeError), match="ready_behind"):
        InstanceOptions(plaintext=True, ready_behind=given)  # type: ignore[arg-type]  # that is the point


# The store's part.


def test_a_store_tells_of_its_files(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "node.db", instance_id=US)
    health = store.health()
    assert health.faults == ()
    assert health.database_bytes > 0
    assert health.reserve_bytes > 0
    assert health.disk_free_bytes is not None
    store.close()
    assert "is closed" in store.health().faults[0]


def test_a_reserve_that_is_given_up_is_a_fault(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "node.db", instance_id=US)
    store._file._room._reserve.give_up()  # type: ignore[union-attr]  # it has a file
    health = store.health()
    store.close()
    assert health.reserve_bytes == 0
    assert "its reserve is given up" in health.faults[0]


def test_a_disk_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    store = SQLiteStore(tmp_path / "here" / "node.db", instance_id=US)
    (tmp_path / "here").rename(tmp_path / "there")
    faults = store.health().faults
    (tmp_path / "there").rename(tmp_path / "here")
    store.close()
    assert "was removed or replaced" in faults[0]
    assert "does not answer" in faults[1]


def test_a_database_in_memory_has_no_faults() -> None:
    store = SQLiteStore(":memory:", instance_id=US)
    assert store.health() == StoreHealth()
    store.close()
