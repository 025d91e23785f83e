"""Table of the options of an instance.

It has for each its key, the kind of its values, and a line of help. Flags of the command line and keys of a
configuration file are both made of this table. It is data alone, so that a command line loads it in no time; `kinds`
knows how the values are written, and the option classes have the defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Kind of the values, as a help text names it ("" is a switch), and a line of help.

    `many`: a list or a dict, of which a command line has one item at each mention.
    """

    kind: str
    help: str
    many: bool = False

    @property
    def choices(self) -> list[str]:
        """The words that can be given, where there are some."""
        return [word for word in self.kind.split("|") if not word.isupper()] if "|" in self.kind else []


TABLE: Mapping[str, Entry] = {
    "listen": Entry("HOST:PORT", "let peers connect here; port 0 lets the system choose"),
    "remotes": Entry(
        "[PEER@]HOST:PORT", "peers to dial; UUID@ or the SHA-256 of the key and @ in front pins one", many=True
    ),
    "database": Entry("FILE", "the instance's database, made if missing"),
    "subscriptions": Entry("CHANNEL", "what is subscribed to, beside what earlier runs asked for", many=True),
    "tls.cert": Entry("FILE", "our certificate (PEM)"),
    "tls.key": Entry("FILE", "its private key (PEM)"),
    "tls.ca": Entry("FILE", "the CA that signs every member (PEM)"),
    "tls.crl": Entry("FILE", "its certificate revocation lists (PEM): who is listed is refused, and disconnected"),
    "tls.insecure_ca_only": Entry("", "dial without a check of the host name: any member can pose as any remote (D-2)"),
    "tls.tls12": Entry("", "take TLS 1.2 beside 1.3"),
    "tls.keylog": Entry("FILE", "write the keys of each connection there, for Wireshark: who has them reads all"),
    "plaintext": Entry("", "no TLS: for a trial on one machine only (D-15)"),
    "acl": Entry("RULES", "access rules (TOML)"),
    "identity": Entry("UUID", "our UUID, where neither the certificate nor the database says it"),
    "record": Entry("DIR", "record what goes over the wire into this directory, bodies in plaintext"),
    "record_compression": Entry("none|zlib", "zlib makes recordings smaller, and the processor busier"),
    "status": Entry("HOST:PORT", "serve the status there: probes, metrics, a page; port 0 lets the system choose"),
    "status_anywhere": Entry("", "beyond this machine, too, where whoever reaches it reads it"),
    "ready_behind": Entry("SECONDS|none", "age of the oldest unacknowledged message from which it is not ready"),
    "min_free": Entry("BYTES", "free disk below which new messages are refused (D-13)"),
    "retry_interval": Entry(
        "SECONDS", "before the first resend of an unacknowledged message, doubling from there (T-50)"
    ),
    "expire_after": Entry("SECONDS|none", "after which a stored message that is unacknowledged is given up (D-10)"),
    "forget_after": Entry("SECONDS|none", "after which a peer that is away is forgotten, with its queue (T-77)"),
    "quota_policy": Entry("raise|drop_oldest|skip", "what becomes of messages for a peer at its quota (D-10)"),
    "quota_policies": Entry("UUID=POLICY", "the same for one peer", many=True),
    "unsubscribed_hold": Entry(
        "SECONDS", "for which messages wait for a peer whose newer list lacks their subscription (T-61)"
    ),
    "strict_block": Entry("", "sends wait while any connection is being made (T-62)"),
    "dedupe": Entry("N", "handled messages that are remembered, so that a copy is not delivered again (T-48)"),
    "dedupe_durable": Entry("", "remember them on disk, before the ack goes out"),
    "stuck_after": Entry("SECONDS|none", "after which a handler's call counts as stuck, and others go on (D-9)"),
    "handling_timeout": Entry(
        "SECONDS|none", "after which a message that a handler is still at is handed out again; 0: each copy is (T-48)"
    ),
    "probe": Entry("off|ack|message", "what is said on a connection that is silent (T-80)"),
    "probe_interval": Entry("SECONDS", "for which it is silent before that"),
    "probe_timeout": Entry("SECONDS", "for an answer to a probe that is a message, else the connection is lost"),
    "max_connection_age": Entry("SECONDS|none", "after which a connection is ended in order and dialled again (D-8)"),
    "unacknowledged_after": Entry("SECONDS|none", "after which a notice says that a peer acknowledges nothing"),
    "revision": Entry("LAYOUT", "the wire layout: 1 or 2, or that of another program (docs/foreign.md)"),
    "revisions": Entry("UUID=LAYOUT", "the same for one peer that dials us", many=True),
    "version": Entry("N", "the version that we announce (T-02)"),
    "speaks": Entry("VERSION", "a peer's version that we can speak beside ours (T-60)", many=True),
    "dialect": Entry(
        "HABIT,...",
        "how everybody speaks: unreliable-id:N, strict-uuid7, accept-either, announce-after-handshake, "
        "control-messages:0, subscriptions:CHANNEL (C6)",
    ),
    "dialects": Entry("UUID=HABIT,...", "the same for one peer, and revision:LAYOUT, version:N", many=True),
    "limits.max_body": Entry("BYTES", "a message's body (T-06)"),
    "limits.max_name": Entry("BYTES", "a channel or a key (T-07)"),
    "limits.max_subscriptions": Entry("N", "subscriptions of a peer (T-08, T-19)"),
    "limits.max_handshake": Entry("BYTES", "a whole handshake (T-08)"),
    "limits.handshake_timeout": Entry("SECONDS", "for a handshake (T-68)"),
    "limits.close_timeout": Entry("SECONDS", "from our last byte to the end of the peer's"),
    "limits.unexpected_per_minute": Entry("N", "handshake frames out of place, in a minute; more wait (T-65)"),
    "limits.handshake_burst": Entry("N", "handshakes of a peer at once, then one a second (T-66)"),
    "limits.high_water": Entry("BYTES", "unsent, above which nothing more is pulled for a connection (D-9)"),
    "limits.low_water": Entry("BYTES", "unsent, below which pulling goes on (D-9)"),
    "limits.max_answers": Entry("BYTES", "of our answers that a peer leaves unread (D-12)"),
    "limits.inbox_messages": Entry("N", "messages of a connection at handlers, before reading pauses (D-9)"),
    "limits.inbox_bytes": Entry("BYTES", "the same in bytes"),
    "limits.max_handshakes": Entry("N", "connections that came in and are not established yet (D-7)"),
    "limits.max_handshakes_per_address": Entry("N", "the same from one address"),
    "limits.peers_per_key": Entry("N", "UUIDs of one key, where its certificates have none (D-3)"),
    "limits.window_messages": Entry("N", "messages on their way to a peer, unacknowledged (T-52)"),
    "limits.window_bytes": Entry("BYTES", "the same in bytes"),
    "limits.backoff_messages": Entry("N", "messages for a peer that wait for their resend (T-52)"),
    "limits.outbox_messages": Entry("N", "messages that wait for a peer: its quota (D-10)"),
    "limits.outbox_bytes": Entry("BYTES", "the same in bytes"),
    "limits.max_attempts": Entry("N", "failures of a message before it is a dead letter (T-47)"),
    "limits.attempts_remembered": Entry("N", "messages whose failures are counted in memory (T-47)"),
    "limits.max_dead_letters": Entry("N", "dead letters; at it the oldest goes (T-47)"),
    "limits.max_dead_letter_bytes": Entry("BYTES", "the same in bytes"),
    "limits.max_retained": Entry("N", "names whose last value is kept (P-35)"),
    "limits.max_retained_bytes": Entry("BYTES", "the same in bytes"),
    "limits.control_per_second": Entry("N", "control messages of a peer; what is above waits (D-12)"),
    "limits.resend_max": Entry("SECONDS", "between two resends of a message at most"),
    "limits.redial_first": Entry("SECONDS", "before the second dial of a remote, doubling from there (T-73)"),
    "limits.redial_max": Entry("SECONDS", "between two dials of a remote at most"),
    "limits.handler_grace": Entry(
        "SECONDS", "after the opening, in which what is wanted is kept for its handler (T-46)"
    ),
    "limits.subscription_grace": Entry(
        "SECONDS", "after the opening, in which what nobody wants is not dropped yet (T-46)"
    ),
    "limits.keep_bytes": Entry(
        "BYTES", "kept for a peer that is just connecting; four times as much for all that were never up (T-62)"
    ),
    "limits.removal_delay": Entry("SECONDS", "for which acknowledged rows wait for a commit to ride with"),
    "limits.crossing_dial_window": Entry(
        "SECONDS", "in which two connections of one peer are two dials that crossed (T-70)"
    ),
}
"""By key, in the order in which people read them."""

PROGRAM: Mapping[str, Entry] = {
    "only": Entry("", "give up subscriptions of earlier runs that this file does not name, and what waits for them"),
    "stop_timeout": Entry(
        "SECONDS", "after SIGTERM, in which messages that are being handled may end; then connections are closed"
    ),
    "deliver.channel": Entry("NAME", "only messages of this channel, which is subscribed to; all channels without it"),
    "deliver.key": Entry("NAME", "only messages of this key; all keys without it"),
    "deliver.file": Entry("FILE", "append each message to this file, as a line of JSON, before it is acknowledged"),
    "deliver.command": Entry(
        "WORD", "run this for each message, with its body on standard input; status 0 acknowledges it", many=True
    ),
    "deliver.socket": Entry(
        "unix:PATH or HOST:PORT", "send each message there, as a line of JSON; the line `ok` in answer acknowledges it"
    ),
    "deliver.python": Entry("MODULE:FUNCTION", "call this function of a Python module with each message"),
    "deliver.stage": Entry("DIR", "put messages into this stage, from which others read (docs/staging.md)"),
    "deliver.max_staged": Entry("BYTES", "no more is taken while so much is in that stage"),
    "deliver.concurrency": Entry("N", "so many messages at once at a command, a socket or a function"),
    "deliver.timeout": Entry("SECONDS|none", "for one message; after that it counts as failed, and is redelivered"),
    "bridge.listen": Entry("HOST:PORT", "let subscribers of streams connect here, for messages as streams"),
    "bridge.names": Entry("WORD", "which streams there are (docs/bridge.md)", many=True),
    "bridge.subscribe": Entry("", "a stream subscribes this instance to what it asks for, for good"),
    "bridge.acl": Entry("RULES", "access rules of the streams (TOML)"),
    "reload_every": Entry("SECONDS|none", "between two looks whether what SIGHUP reads again has changed"),
    "log_level": Entry(
        "debug|info|warning|error", "the least that is logged; without it, what --log-level says, or warning"
    ),
}
"""The same of a program that is made of a file alone: `tolliver run`."""

PROGRAM_DEFAULTS: Mapping[str, Any] = {
    "only": False,
    "stop_timeout": 10.0,
    "deliver.channel": "",
    "deliver.key": "",
    "deliver.concurrency": 1,
    "deliver.timeout": 60.0,
    "deliver.max_staged": 4 * 2**30,
    "bridge.names": ("tolliver://*",),
    "bridge.subscribe": False,
    "reload_every": None,
}

CODE = {
    "handlers": "functions of a program",
    "responders": "functions of a program",
    "on_event": "a function of a program",
    "limits.resend_first": "`retry_interval` says it",
}
"""Options that are not in the table, and why."""

_FLAGS = {
    "tls.cert": "--cert",
    "tls.key": "--key-file",
    "tls.ca": "--ca",
    "remotes": "--connect",
    "subscriptions": "--channel",
}


def flag_of(key: str) -> str:
    """The option's name on a command line."""
    return _FLAGS.get(key) or f"--{key.replace('_', '-')}"


def unknown(key: str, keys: Collection[str]) -> str:
    """A sentence about a key that is none, with the nearest that is one."""
    last = {one.rpartition(".")[2]: one for one in keys}
    near = get_close_matches(key, keys, 1) or [last[one] for one in get_close_matches(key.rpartition(".")[2], last, 1)]
    remedy = f"is {near[0]} meant?" if near else "`tolliver config example` shows them all"
    return f"there is no option {key!r:.100}: {remedy}"
