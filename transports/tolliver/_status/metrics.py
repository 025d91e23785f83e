"""Table of all metrics, from which exporters and documentation are generated.

It has name, kind, unit, subject, labels and help of every number of a snapshot. Prometheus' text, the table of
the reference and other exporters are generated from this table, so that a number has the same name everywhere.
`samples` gives the numbers of a snapshot in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Literal, NamedTuple

from .snapshot import ChannelStatus, HistogramStatus, InstanceStatus, PeerStatus, QueueStatus

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["", "bytes", "seconds", "ratio", "timestamp"]
Subject = Literal["instance", "peer", "remote", "channel", "queue"]


class Metric(NamedTuple):
    """A number of an instance, or of each of its peers, remotes, channels or queues.

    `name` is the key in the snapshot; `by` is the label that tells several of one name apart: then the keys in the
    snapshot are `name_value`. A `unit` of "" counts things, "timestamp" is seconds since 1970.
    """

    name: str
    kind: Kind
    unit: Unit
    help: str
    subject: Subject = "instance"
    by: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels of a sample: whose it is, then the reason or cause."""
        own = () if self.subject == "instance" else (self.subject,)
        return (*own, *([self.by] if self.by else []))

    @property
    def exported(self) -> str:
        """The metric's name in Prometheus: with its unit, and `_total` for a counter."""
        subject = "" if self.subject == "instance" else f"{self.subject}_"
        unit = _SUFFIXES[self.unit]
        return f"tolliver_{subject}{self.name.removesuffix(unit)}{unit}{'_total' if self.kind == 'counter' else ''}"


_SUFFIXES: Mapping[Unit, str] = {
    "": "",
    "bytes": "_bytes",
    "seconds": "_seconds",
    "ratio": "_ratio",
    "timestamp": "_timestamp_seconds",
}


class Sample(NamedTuple):
    """The value of a metric, a number or a distribution, at one moment."""

    metric: Metric
    labels: Mapping[str, str]
    value: float | HistogramStatus


def _counter(name: str, text: str, unit: Unit = "", by: str = "") -> Metric:
    return Metric(name, "counter", unit, text, by=by)


def _gauge(name: str, text: str, unit: Unit = "") -> Metric:
    return Metric(name, "gauge", unit, text)


def _seconds(name: str, text: str) -> Metric:
    return Metric(name, "histogram", "seconds", text)


_OF_INSTANCE = (
    _counter("received_bytes", "Bytes that came over all connections, before TLS.", "bytes"),
    _counter("sent_bytes", "Bytes that went over all connections, before TLS.", "bytes"),
    _counter("handled", "Deliveries that all handlers handled well."),
    _counter("failed", "Deliveries that a handler failed."),
    _counter("duplicates", "Copies that were acknowledged and not handed out."),
    _counter("ids_reused", "Messages under an id that their sender had given to another one."),
    _counter("waited", "Copies of a message that was being handled, which share its answer."),
    _counter("withheld", "Messages that were left to their sender, and are redelivered."),
    _counter("unwanted", "Messages that nothing here subscribes to: acknowledged and dropped."),
    _counter("sent", "Messages that were sent to peers, first copies: one for each recipient."),
    _counter("acked", "Messages of ours that a peer acknowledged."),
    _counter("resent", "Copies of our messages beyond the first."),
    _counter("stray_acks", "Acknowledgements of nothing that is ours."),
    _counter("probes", "Probes that were sent."),
    _counter("probes_unanswered", "Connections that were given up for want of an answer."),
    _counter("aged_out", "Connections that were ended for their age."),
    _counter("expired_messages", "Messages that were given up when their time was over."),
    _counter("dropped_letters", "Dead letters that went as there were too many."),
    _counter("dropped_oldest", "Deliveries that a peer at its quota lost for newer ones."),
    _counter("skipped", "Deliveries that a peer at its quota was not given."),
    _counter("unsubscribed", "Deliveries that were given up as their peer subscribes no more."),
    _counter("not_kept", "Messages that were not kept for a remote that was connecting."),
    _counter("no_recipients", "Durable messages that had no recipient, and were not kept."),
    _counter("unreliable_sent", "Unreliable messages that were queued."),
    _counter("unreliable_dropped", "Unreliable messages that were dropped over high water."),
    _counter("requests", "Requests that were asked."),
    _counter("requests_answered", "Requests that ended with an answer."),
    _counter("requests_failed", "Requests that ended with an error."),
    _counter("requests_timed_out", "Requests whose time was over."),
    _counter("requests_cancelled", "Requests whose caller stopped waiting."),
    _counter("late_replies", "Replies for no request that waits."),
    _counter("replies", "Replies to requests of peers."),
    _counter("replies_dropped", "Replies that could not be sent."),
    _counter("refused_sends", "Sends that raised OutboxFull, at the quota of a peer or a work queue."),
    _counter("refused_subscriptions", "Subscriptions of peers that were refused."),
    _counter("refused_messages", "Messages that their peer may not publish: acknowledged, not handed out."),
    _counter("refused_handshakes", "Connections that were closed, as too many were in their handshake."),
    _counter("hurried", "Times that control messages came too fast and had to wait."),
    _counter("ignored", "Frames that were whole but not understandable.", by="reason"),
    _counter("dials", "Tries to connect to a remote."),
    _counter("dials_failed", "Tries to connect that failed.", by="cause"),
    _counter("handshakes_timed_out", "Connections that came in and did not finish their handshake."),
    _counter("notices", "Notices for an operator.", by="kind"),
    _counter("connects", "Connections to peers that stood."),
    _counter("disconnects", "Connections to peers that ended.", by="cause"),
    _counter("given_up", "Deliveries that were given up: their peer will not acknowledge them.", by="reason"),
    _counter("delivered", "Messages that were given to handlers."),
    _counter("commits", "Commits to the database."),
    _counter("commits_failed", "Commits of which nothing was stored."),
    _gauge("ready", "1 where the instance is ready, 0 where /readyz says why not."),
    _gauge("uptime_seconds", "Time since the instance was opened.", "seconds"),
    _gauge("connections", "Connections in any state."),
    _gauge("peers", "Peers that are known."),
    _gauge("peers_up", "Peers that are connected."),
    _gauge("pending", "Deliveries that wait for a peer or its acknowledgement."),
    _gauge("pending_bytes", "Bytes of these deliveries.", "bytes"),
    _gauge("in_flight", "Messages that were sent and are not acknowledged."),
    _gauge("backoff", "Messages of these whose acknowledgement is overdue."),
    _gauge("parked", "Deliveries that are parked."),
    _gauge("dead_letters", "Dead letters that are kept."),
    _gauge("own_subscriptions", "Subscriptions of this instance."),
    _gauge("peer_subscriptions", "Different subscriptions of all peers."),
    _gauge("held_subscriptions", "Subscriptions that the newer lists of their peers lack."),
    _gauge("stuck_handlers", "Handlers whose call lasts for longer than stuck_after."),
    _gauge("retained", "Values that are kept for later subscribers."),
    _gauge("retained_bytes", "Bytes of these values and their names.", "bytes"),
    _gauge("message_keys", "Message keys of sends that are remembered."),
    _gauge("message_key_bytes", "Bytes of these keys and their channels.", "bytes"),
    _gauge("later", "Messages and jobs whose time has not come."),
    _gauge("later_bytes", "Bytes of these.", "bytes"),
    _gauge("kept", "Messages that channels keep for their first subscriber; they count as pending, too."),
    _gauge("kept_bytes", "Bytes of these.", "bytes"),
    _gauge("requests_outstanding", "Requests without an end."),
    _gauge("oldest_unacknowledged_seconds", "Age of the oldest message that waits for a peer.", "seconds"),
    _gauge("database_bytes", "Size of the database.", "bytes"),
    _gauge("log_bytes", "Size of the database's log.", "bytes"),
    _gauge("reserve_bytes", "Size of the reserve on the disk, 0 where it is given up.", "bytes"),
    _gauge("disk_free_bytes", "Bytes of the database's disk that are free.", "bytes"),
    _gauge("certificate_not_before", "Beginning of our certificate, in seconds since 1970.", "timestamp"),
    _gauge("certificate_not_after", "End of our certificate, in seconds since 1970.", "timestamp"),
    _gauge("crl_next_update", "End of our list of revoked certificates, in seconds since 1970.", "timestamp"),
    _seconds("commit_seconds", "Time of a commit, off the loop."),
    _seconds("fsync_seconds", "Time of a commit's end: the log is written and synced."),
    Metric("rows_per_commit", "histogram", "", "Messages that a commit stores."),
    _seconds("handler_seconds", "Time of a handler for one message, of all channels."),
    _seconds("round_trip_seconds", "Time from when a socket took a message to its acknowledgement."),
)

_OF_PEER = (
    Metric("sent", "counter", "", "Messages that were sent to the peer, first copies.", "peer"),
    Metric("acknowledged", "counter", "", "Messages that the peer acknowledged.", "peer"),
    Metric("resent", "counter", "", "Copies of messages beyond the first.", "peer"),
    Metric("given_up", "counter", "", "Messages that the peer will not acknowledge.", "peer", "reason"),
    Metric("delivered", "counter", "", "Messages of the peer that were handed out.", "peer"),
    Metric("duplicates", "counter", "", "Copies of the peer that were not handed out.", "peer"),
    Metric("refused", "counter", "", "Messages that the peer may not publish.", "peer"),
    Metric("dead_letters", "counter", "", "Messages of the peer that became dead letters.", "peer"),
    Metric("sent_bytes", "counter", "bytes", "Bytes that went to the peer, before TLS.", "peer"),
    Metric("received_bytes", "counter", "bytes", "Bytes that came from the peer, before TLS.", "peer"),
    Metric("connects", "counter", "", "Connections to the peer that stood.", "peer"),
    Metric("disconnects", "counter", "", "Connections to the peer that ended.", "peer", "cause"),
    Metric("connected", "gauge", "", "1 where the peer is connected.", "peer"),
    Metric("pending", "gauge", "", "Messages that wait for the peer or its acknowledgement.", "peer"),
    Metric("pending_bytes", "gauge", "bytes", "Bytes of these messages.", "peer"),
    Metric("parked", "gauge", "", "Messages that are parked for the peer.", "peer"),
    Metric("parked_bytes", "gauge", "bytes", "Bytes of these messages.", "peer"),
    Metric("in_flight", "gauge", "", "Messages that were sent and are not acknowledged.", "peer"),
    Metric("backoff", "gauge", "", "Messages of these whose acknowledgement is overdue.", "peer"),
    Metric("oldest_unacknowledged", "gauge", "seconds", "Age of the oldest message that waits for the peer.", "peer"),
    Metric("quota_used", "gauge", "ratio", "Share of the peer's quota that is used, 1 where it is full.", "peer"),
    Metric("held_subscriptions", "gauge", "", "Subscriptions that the peer's newer list lacks.", "peer"),
    Metric("round_trip", "gauge", "seconds", "Time to the last acknowledgement that was measured.", "peer"),
    Metric("certificate_not_before", "gauge", "timestamp", "Beginning of the peer's certificate.", "peer"),
    Metric("certificate_not_after", "gauge", "timestamp", "End of the peer's certificate.", "peer"),
    Metric("info", "gauge", "", "1, with the name that the peer's certificate gives it.", "peer", "name"),
)
_OTHERS = (
    Metric("connected", "gauge", "", "1 where the remote is connected, 0 where it is not.", "remote"),
    Metric("refused", "gauge", "", "1 where the remote or this side refuses the other.", "remote", "cause"),
    Metric("attempt", "gauge", "", "Dials since the remote was connected.", "remote"),
    Metric("handled", "counter", "", "Messages of the channel that a handler handled well.", "channel"),
    Metric("failed", "counter", "", "Messages of the channel that a handler failed.", "channel"),
    Metric("handlers", "gauge", "", "Handlers and iterators of the channel.", "channel"),
    Metric("queued", "gauge", "", "Messages that these have and have not settled.", "channel"),
    Metric("handler_seconds", "histogram", "seconds", "Time of a handler for one message.", "channel"),
    Metric("waiting", "gauge", "", "Jobs that no worker has.", "queue"),
    Metric("running", "gauge", "", "Jobs that workers have.", "queue"),
    Metric("workers", "gauge", "", "Workers that are connected.", "queue"),
    Metric("quota_used", "gauge", "ratio", "Share of the queue's quota that is used, 1 where it is full.", "queue"),
)

METRICS: tuple[Metric, ...] = (*_OF_INSTANCE, *_OF_PEER, *_OTHERS)
"""Every metric, in the order of the documentation and of Prometheus' text."""


def samples(status: InstanceStatus) -> Iterator[Sample]:
    """Numbers of a snapshot, metric by metric. Numbers that are unknown now are left out."""
    owned = {subject: values(status) for subject, values in _VALUES.items()}
    for metric in METRICS:
        for labels, values in owned[metric.subject]:
            yield from _of(metric, labels, values)


def _of(metric: Metric, labels: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Sample]:
    if metric.by:
        head = f"{metric.name}_"
        for name, value in values.items():
            if name.startswith(head) and name not in _NAMES:
                yield Sample(metric, {**labels, metric.by: name.removeprefix(head)}, value)
    elif (value := values.get(metric.name)) is not None:
        yield Sample(metric, labels, value)


Owned = list[tuple[Mapping[str, str], Mapping[str, Any]]]
"""Labels of each subject of a kind, and its numbers by name."""


def _of_instance(status: InstanceStatus) -> Owned:
    return [({}, {**status.counters, **status.gauges, **status.histograms})]


def _of_peers(status: InstanceStatus) -> Owned:
    return [
        (
            {"peer": str(one.uuid)},
            {
                **_numbers(one),
                **one.counters,
                "connected": int(one.connected),
                "held_subscriptions": len(one.held),
                f"info_{one.name}": 1,
            },
        )
        for one in status.peers
    ]


def _of_remotes(status: InstanceStatus) -> Owned:
    return [
        (
            {"remote": one.remote},
            {
                "connected": int(one.state == "connected"),
                "attempt": one.attempt,
                **({f"refused_{one.cause}": 1} if one.refused else {}),
            },
        )
        for one in status.remotes
    ]


def _numbers(one: PeerStatus | ChannelStatus | QueueStatus) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(one)}


_VALUES: Mapping[Subject, Callable[[InstanceStatus], Owned]] = {
    "instance": _of_instance,
    "peer": _of_peers,
    "remote": _of_remotes,
    "channel": lambda status: [({"channel": one.channel}, _numbers(one)) for one in status.channels],
    "queue": lambda status: [({"queue": one.queue}, _numbers(one)) for one in status.queues],
}
_NAMES = frozenset(metric.name for metric in METRICS)
