"""Captures in the pcapng format.

TCP connections are invented around known bytes. A connection is opened and carries its bytes in segments in the given
order, so that every program reassembles them. There are no retransmissions, and connections are not closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from struct import pack

SECTION, INTERFACE, PACKET, NAMES = 0x0A0D0D0A, 1, 6, 4
_ORDER = 0x1A2B3C4D
_END, _COMMENT, _APPLICATION, _RESOLUTION = 0, 1, 4, 9
_IPV4_NAME = 1
_RAW_IP = 101  # link type: a packet begins with its IP header
_NANOSECONDS = 9
_NO_LENGTH = 2**64 - 1
_SYN, _PUSH, _ACK = 2, 8, 16
_WINDOW = 2**16 - 1
MOST = 60_000
"""Most bytes of a segment, as an IP packet has less than 64 KiB."""


def section(comment: str) -> bytes:
    """Bytes with which a capture file begins; they describe the interface of its packets."""
    options = _option(_COMMENT, comment.encode()) + _option(_APPLICATION, b"tolliver") + _option(_END, b"")
    head = _block(SECTION, pack("<IHHQ", _ORDER, 1, 0, _NO_LENGTH) + options)
    resolution = _option(_RESOLUTION, bytes([_NANOSECONDS])) + _option(_END, b"")
    return head + _block(INTERFACE, pack("<HHI", _RAW_IP, 0, 0) + resolution)


def names(of: dict[IPv4Address, str]) -> bytes:
    """Bytes of a block with the host names of these addresses."""
    records = b"".join(_option(_IPV4_NAME, address.packed + name.encode() + b"\0") for address, name in of.items())
    return _block(NAMES, records + _option(_END, b"") + _option(_END, b""))


def packet(time_ns: int, data: bytes) -> bytes:
    high, low = divmod(time_ns, 2**32)
    return _block(PACKET, pack("<IIIII", 0, high, low, len(data), len(data)) + _padded(data))


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return pack("<II", kind, size) + body + pack("<I", size)


def _option(code: int, value: bytes) -> bytes:
    return pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Connection:
    """Writer of one TCP connection in a capture: makes the packets that would have carried the recorded bytes, from the
    client's first packet on.
    """

    def __init__(self, client: tuple[IPv4Address, int], server: tuple[IPv4Address, int]) -> None:
        self._ends = client, server
        self._sent = [0, 0]  # bytes sent by each side modulo 2^32, including its SYN

    def opened(self, time_ns: int) -> Iterator[bytes]:
        """Blocks of the packets that open the connection, at this time in nanoseconds since 1970."""
        yield self._packet(time_ns, 0, _SYN)
        yield self._packet(time_ns, 1, _SYN | _ACK)
        yield self._packet(time_ns, 0, _ACK)

    def carried(self, time_ns: int, from_server: bool, data: bytes) -> Iterator[bytes]:
        """Blocks of the packets with the bytes that one side sends, the server or the client, at `time_ns`, in
        nanoseconds since 1970.
        """
        for start in range(0, len(data), MOST):
            yield self._packet(time_ns, from_server, _PUSH | _ACK, data[start : start + MOST])

    def _packet(self, time_ns: int, sender: int, flags: int, data: bytes = b"") -> bytes:
        (source, source_port), (target, target_port) = self._ends[sender], self._ends[not sender]
        acknowledged = self._sent[not sender] if flags & _ACK else 0
        ports_and_numbers = pack(">HHII", source_port, target_port, self._sent[sender], acknowledged)
        segment = ports_and_numbers + pack(">BBHHH", 5 << 4, flags, _WINDOW, 0, 0) + data
        pseudo = source.packed + target.packed + pack(">HH", 6, len(segment))
        segment = segment[:16] + _checksum(pseudo + segment) + segment[18:]
        head = pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0) + source.packed + target.packed
        self._sent[sender] += len(data) + bool(flags & _SYN)
        self._sent[sender] %= 2**32
        return packet(time_ns, head[:10] + _checksum(head) + head[12:] + segment)


def _checksum(data: bytes) -> bytes:
    """Checksum of IP and TCP: complement of a sum modulo 2^16-1."""
    rest = int.from_bytes(data + bytes(len(data) % 2)) % 0xFFFF
    return pack(">H", (0xFFFF - rest) % 0xFFFF)
