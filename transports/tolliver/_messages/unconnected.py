"""Texts about remotes and peers that calls wait for."""

from __future__ import annotations

from collections.abc import Sequence

from tolliver_proto import Node, Subscription
from tolliver_proto.node import PeerInfo, RemoteInfo

MOST_NAMED = 3  # in one text


def words_of(remote: RemoteInfo) -> str:
    """Text about an unconnected remote: the error, the number of tries, seconds until the next."""
    tries = f"tried {remote.tries} times" if remote.tries > 1 else "tried once"
    again = "" if remote.next_try is None else f", again in {remote.next_try:.1f} s"
    return f"{remote.error or 'no answer so far'}; {tries}{again}"


def unconnected(node: Node, now: float) -> str:
    """Text that lists the remotes whose last dial failed, with its error; "" if there are none."""
    missing = [one for one in node.remotes(now) if one.error]
    said = [f"{one.remote} ({words_of(one)})" for one in missing[:MOST_NAMED]]
    return f"; not connected: {with_others(said, len(missing), ', ')}" if said else ""


def seen(peers: Sequence[PeerInfo], channel: str, key: str) -> str:
    """Text about the peers that lack a subscription to this channel and key: which they are, and what they have
    instead. Connected ones come first.
    """
    if not peers:
        return "no peer is known yet: dial one, or let one dial"
    said = [_words_of_peer(one, channel, key) for one in sorted(peers, key=lambda one: not one.connected)[:MOST_NAMED]]
    return with_others(said, len(peers), "; ")


def _words_of_peer(peer: PeerInfo, channel: str, key: str) -> str:
    where = f"peer {peer.uuid} is {'connected' if peer.connected else 'not connected'}"
    if any(_matches(one, channel, key) for one in peer.subscriptions):
        return f"{where} and subscribes to it"
    if any(_matches(one, channel, key) for one in peer.held):
        return f"{where} and does not say any more that it subscribes to it (T-61)"
    said = [f"{one.channel!r:.100} {one.key!r:.100}" for one in peer.subscriptions[:MOST_NAMED]]
    return f"{where} and subscribes to {with_others(said, len(peer.subscriptions), ', ') or 'nothing'}"


def _matches(one: Subscription, channel: str, key: str) -> bool:
    return one.channel in ("", channel) and one.key in ("", key)


def with_others(said: Sequence[str], count: int, between: str) -> str:
    """The texts in a row, and how many more there are of the `count` in all."""
    others = [f"{count - len(said)} others"] if count > len(said) else []
    return between.join([*said, *others])
