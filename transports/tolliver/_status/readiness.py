"""Readiness of an instance: reasons against it, each with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tolliver_proto.node import RemoteState

from .._options.instance import InstanceOptions
from .._store.health import StoreHealth
from .snapshot import PeerStatus, QueueStatus, RemoteStatus

_SAID = 3  # most peers or remotes named in one text


def not_ready(
    options: InstanceOptions,
    is_open: bool,
    listening: Sequence[str],
    health: StoreHealth,
    certificate_left: float | None,
    crl_left: float | None,
    peers: Sequence[PeerStatus],
    queues: Sequence[QueueStatus],
    remotes: Sequence[RemoteStatus] = (),
    *,
    has_uuid: bool = True,
) -> Iterator[str]:
    """Reasons why the instance is not ready, in the order in which to remove them. `is_open` is False before and after
    its work.

    `certificate_left` and `crl_left` are seconds until our certificate and our revocation list expire. `has_uuid` is
    True if the certificate has one.
    """
    if not is_open:
        yield "it is closed, or being closed: start it again"
    elif options.listen is not None and not listening:
        yield "it does not listen: start it again"
    yield from health.faults
    if certificate_left is not None and certificate_left <= 0:
        new = "a new one with the same UUID" if has_uuid else "a new one"
        yield f"our own certificate has ended, and peers refuse it: make {new}, and call reload_tls()"
    if crl_left is not None and crl_left <= 0:
        yield (
            "our list of revoked certificates (crl) has ended, and lets nobody in: put a newer one in its place, and "
            "call reload_tls()"
        )
    yield from _at_quota(
        [
            *(f"peer {one.uuid} ({_where(one)})" for one in peers if one.full),
            *(f"work queue {one.queue!r:.100} ({one.waiting} wait)" for one in queues if one.full),
        ]
    )
    yield from _behind(options.ready_behind, peers)
    if _all_away(remotes):
        yield from _refused(remotes)


def warnings(remotes: Sequence[RemoteStatus]) -> Iterator[str]:
    """Faults that do not affect readiness but should be repaired."""
    if not _all_away(remotes):
        yield from _refused(remotes)


def _all_away(remotes: Sequence[RemoteStatus]) -> bool:
    return all(one.state is not RemoteState.CONNECTED for one in remotes)


def _refused(remotes: Sequence[RemoteStatus]) -> Iterator[str]:
    """Texts about remotes that refuse us or that we refuse. One that only does not answer is left out: it may be
    starting, and may itself wait until this instance is ready."""
    refused = [f"{one.remote:.100} ({one.error:.300})" for one in remotes if one.refused]
    if refused:
        whose = "no remote is connected, and these are" if _all_away(remotes) else "remotes are"
        yield (
            f"{whose} refused, by one side or the other: {_some(refused)}. Mend certificate, clock, version or access "
            "rules of that side; they are dialled every 1 to 5 minutes, and at once after reload_tls() or set_acl()"
        )


def _where(one: PeerStatus) -> str:
    return f"{'connected' if one.connected else 'away'}, {one.pending} wait"


def _some(named: list[str]) -> str:
    others = [f"{len(named) - _SAID} others"] if len(named) > _SAID else []
    return ", ".join([*named[:_SAID], *others])


def _at_quota(full: list[str]) -> Iterator[str]:
    if full:
        yield (
            f"the quota is used up, and the last send was refused, for {_some(full)}: bring them back, look at their "
            "handlers, forget the peer (forget_peer), or raise Limits.outbox_messages or outbox_bytes"
        )


def _behind(bound: float | None, peers: Sequence[PeerStatus]) -> Iterator[str]:
    """Texts about peers with a message that has waited for longer than `bound` seconds."""
    if bound is None:
        return
    late = [(one.oldest_unacknowledged, one) for one in peers if (one.oldest_unacknowledged or 0.0) > bound]
    late.sort(key=lambda pair: -(pair[0] or 0.0))
    if late:
        said = _some([f"{one.uuid} for {age or 0.0:.0f} s ({_where(one)})" for age, one in late])
        yield (
            f"peers have not acknowledged messages for longer than ready_behind={bound:g} s: {said}. Bring "
            "them back, look at their handlers, or give up what waits for them (forget_peer)"
        )
