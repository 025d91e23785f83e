"""Cost of recording to the event loop, and speed of reading.

    python benchmarks/recording.py [--mib 64] [--repetitions 7] [--messages 100000] [--directory DIR]

Writing: chunks of 64 KiB with small messages are parsed into frames, as a loop does, with and without a `Recorder` that
is given each chunk too. Three figures: the time of the calls alone, that of the whole loop beside the writing thread
(which needs the interpreter now and then), and, for comparison, that of a loop that writes each chunk to a file itself.
The same for messages that come one by one, each with its ack: processor time, and bytes on disk.
Reading: whole blocks of a recording, against reading the file and its CRC32; frames of its blocks against a Decoder on
the same bytes. All run alternately in this process; the figures are medians, and the ratios those of the same round.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID
from zlib import crc32

from tolliver._messages.recorder import Recorder

from tolliver_proto import Ack, Decoder, Message, Revision, encode
from tolliver_proto.recording import Block, Codec, read_blocks, whole_frames

CHUNK, BODY, MIB = 65536, 100, 2**20
OURS = UUID("01890000-0000-7000-8000-000000000001")


def complain(text: str) -> None:
    raise SystemExit(text)


def parsed(decoder: Decoder, chunk: bytes) -> None:
    decoder.feed(chunk)
    while decoder.next_frame() is not None:
        pass


def plain_loop(chunks: list[bytes]) -> float:
    decoder = Decoder()
    begun = time.perf_counter()
    for chunk in chunks:
        parsed(decoder, chunk)
    return time.perf_counter() - begun


def loop_that_writes(chunks: list[bytes], path: Path) -> float:
    decoder = Decoder()
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for chunk in chunks:
            file.write(chunk)
            parsed(decoder, chunk)
    took = time.perf_counter() - begun
    path.unlink()
    return took


def recorded_loop(chunks: list[bytes], directory: Path, calls: list[float]) -> float:
    """Appends the seconds of the calls alone. Bytes that are still to be written when the loop is through do not
    count."""
    decoder, inside = Decoder(), 0.0
    with closing(Recorder(directory, OURS, Revision.DRAFT_2, complain, queue_bytes=2**40)) as recorder:
        begun = time.perf_counter()
        for chunk in chunks:
            call = time.perf_counter()
            recorder.received(1, chunk)
            inside += time.perf_counter() - call
            parsed(decoder, chunk)
        took = time.perf_counter() - begun
    calls.append(inside)
    return took


def one_by_one(directory: Path, count: int, codec: Codec) -> tuple[float, float, float]:
    """Microseconds of the calls, and of the calls and the thread, and bytes on disk, for each message and its ack."""
    half, ack = BODY // 2, encode(Ack(1))
    messages = [encode(Message("readings", "cpu0", os.urandom(half) + bytes(half), at)) for at in range(1000)]
    begun = time.process_time()
    with closing(Recorder(directory, OURS, Revision.DRAFT_2, complain, codec=codec, queue_bytes=2**40)) as recorder:
        before = time.thread_time()
        for at in range(count):
            recorder.sent(1, [messages[at % 1000]])
            recorder.received(1, ack)
        calls = time.thread_time() - before
    everything = time.process_time() - begun
    size = sum(file.stat().st_size for file in directory.iterdir())
    return 1e6 * calls / count, 1e6 * everything / count, size / count


def timed(job: Callable[[], object]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while data := file.read(MIB):
            total = crc32(data, total)
    return total


def blocks(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        found = list(read_blocks(iter(partial(file.read, MIB), b"")))
    return [block.payload for block in found if isinstance(block, Block)]


def frames(payloads: list[bytes]) -> None:
    decoder = Decoder()
    for payload in payloads:
        parsed(decoder, payload)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--messages", type=int, default=100_000, help="that come one by one")
    parser.add_argument("--directory", type=Path, default=None, help="where files go (default: a temporary one)")
    options = parser.parse_args()
    frame = encode(Message("readings", "cpu0", bytes(BODY), 1))
    data = frame * (options.mib * MIB // len(frame))
    chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
    size = len(data) / MIB

    times: dict[str, list[float]] = {}
    calls: list[float] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        for _ in range(options.repetitions):
            recorded_loop(chunks, directory, calls)
            *_, path = sorted(directory.glob("*.rec"))
            payloads = blocks(path)
            for what, seconds in (
                ("parsing, nothing recorded", plain_loop(chunks)),
                ("parsing, the loop itself writes the chunks", loop_that_writes(chunks, directory / "plain")),
                ("parsing, recorded", recorded_loop(chunks, directory, calls)),
                ("the calls of the recorder alone", calls[-1]),
                ("whole_frames on the same chunks, no objects", timed(lambda: [whole_frames(one) for one in payloads])),  # noqa: B023  # called at once
                ("reading a file and its CRC32", timed(partial(checksum, path))),
                ("reading blocks", timed(partial(blocks, path))),
                ("parsing the frames of the blocks", timed(partial(frames, payloads))),
            ):
                times.setdefault(what, []).append(seconds)
            for file in directory.iterdir():
                file.unlink()

    print(f"CPython {platform.python_version()}, {size:.0f} MiB, {BODY}-byte bodies, {CHUNK // 1024} KiB chunks,")
    print(f"medians of {options.repetitions} alternating repetitions")
    plain = times["parsing, nothing recorded"]
    for what, taken in times.items():
        each = statistics.median(taken)
        ratio = statistics.median(one / other for one, other in zip(taken, plain, strict=True))
        print(f"  {what:<46} {1e6 * each / size:>9,.0f} us/MiB {size / each:>9,.0f} MiB/s   {ratio:>6.3f} of parsing")
    for codec in Codec:
        with tempfile.TemporaryDirectory(dir=options.directory) as name:
            calls_us, all_us, stored = one_by_one(Path(name), options.messages, codec)
        what = f"one by one, codec {codec.name.lower()}"
        print(f"  {what:<46} {calls_us:.2f} us of calls, {all_us:.2f} us in all, {stored:.0f} bytes each")
    print(f"again with: python benchmarks/recording.py --mib {options.mib} --repetitions {options.repetitions}")


if __name__ == "__main__":
    main()
