"""Texts about remotes that are not connected, as reasons of other troubles."""

from __future__ import annotations

from tolliver_proto import Node
from tolliver_proto.node import RemoteInfo

MOST_NAMED = 3  # in one text


def words_of(remote: RemoteInfo) -> str:
    """Text about an unconnected remote: the error, the number of tries, seconds until the next."""
    tries = f"tried {remote.tries} times" if remote.tries > 1 else "tried once"
    again = "" if remote.next_try is None else f", again in {remote.next_try:.1f} s"
    return f"{remote.error}; {tries}{again}"


def unconnected(node: Node, now: float) -> str:
    """Text that lists the remotes whose last dial failed, with its error; "" if there are none."""
    missing = [one for one in node.remotes(now) if one.error]
    said = [f"{one.remote} ({words_of(one)})" for one in missing[:MOST_NAMED]]
    if len(missing) > MOST_NAMED:
        said.append(f"{len(missing) - MOST_NAMED} others")
    return f"; not connected: {', '.join(said)}" if said else ""
