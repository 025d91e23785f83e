"""TLS: a key log opens what was captured, by ALPN and without it; records are cut anywhere."""

from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
from tolliver._options.instance import Remote
from tolliver._options.tls import TLS
from tolliver._tls.policy import ALPN, client_context, server_context
from tolliver._tls.pump import Pump

from tests.certificates import Certificates
from tests.reactive.vectors import VECTORS
from tests.tls.pumping import connected
from tests.wireshark.captures import MESSAGES, OTHER, STREAMS, Said, capture, cut, needs_tshark, read
from tests.wireshark.test_dissector import CONVERSATION, of_message, of_stream, stream_in_words
from tolliver_proto import reactive as rs

pytestmark = needs_tshark


class Wire(Pump):
    """A pump that keeps what it sends."""

    log: list[tuple[bool, bytes]]

    def outgoing(self) -> bytes:
        data = super().outgoing()
        if data:
            self.log.append((self._server, data))
        return data


def encrypted(
    certs: Certificates, keylog: Path, alpn: str, pieces: list[tuple[bool, bytes]]
) -> list[tuple[bool, bytes]]:
    """The same conversation over TLS; each piece is written by itself."""
    tls: list[TLS] = [attrs.evolve(certs.tls(name), keylog=keylog) for name in ("alice", "bob")]
    client = Wire(client_context(tls[0], alpn=alpn), Remote("localhost"), server=False)
    server = Wire(server_context(tls[1], alpn=alpn), None, server=True)
    client.log = server.log = []
    connected(client, server)
    for from_server, data in pieces:
        sender, other = (server, client) if from_server else (client, server)
        sender.write(data)
        other.receive(sender.outgoing())
        assert other.read() == data
    return client.log


def in_segments(pieces: list[tuple[bool, bytes]], random: Random) -> list[tuple[bool, bytes]]:
    return [(side, part) for side, data in pieces for part in cut(data, random, 3)]


def test_a_key_log_opens_both_protocols(certs: Certificates, tmp_path: Path) -> None:
    keylog, random = tmp_path / "keys.log", Random(3)
    asked = rs.encode(rs.ClientHello()) + rs.encode(rs.Subscribe("p", 1, 9))
    answer = b"".join(vector.data for vector in VECTORS if vector.name in ("server-hello", "subscribed"))
    answer += b"".join(vector.data for vector in VECTORS if vector.sizes == {1: 4}) * 2
    in_parts = in_segments(CONVERSATION, random)
    talks: list[tuple[int, str, list[tuple[bool, bytes]]]] = [
        (OTHER, ALPN, CONVERSATION),
        (OTHER, ALPN, in_parts),
        (MESSAGES, "another", in_parts),
        (OTHER, "another", [CONVERSATION[0], *in_segments(CONVERSATION[1:], random)]),
        (STREAMS, rs.ALPN, [(False, asked), *in_segments([(True, answer)], random)]),
        (OTHER, rs.ALPN, [(False, asked), (True, answer)]),
    ]
    sent = [encrypted(certs, keylog, alpn, pieces) for _, alpn, pieces in talks]
    sent = [one for whole in sent for one in (whole, in_segments(whole, random))]
    ports = [port for port, *_ in talks for _ in range(2)]
    path = capture(tmp_path / "tls.pcapng", [CONVERSATION, *sent], [MESSAGES, *ports])

    found: dict[int, list[Said]] = {}
    for one in read(path, "-o", f"tls.keylog_file:{keylog}"):
        found.setdefault(one.stream, []).append(one)
    assert [*found] == [*range(1 + len(sent))]
    plain = [(of_message(one), one.experts) for one in found.pop(0)]
    for number, some in found.items():
        if number <= 8:
            assert [(of_message(one), one.experts) for one in some] == plain, number
        else:
            ours = [of_stream(one) for one in some if one.from_server]
            assert ours == [stream_in_words(one) for one in rs.decode(answer)], number

    assert {one.stream for one in read(path)} == {0}, "without the keys nothing is seen"
