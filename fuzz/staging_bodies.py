"""Checks for the fuzzer of staging folders, on any bytes.

A case is a program that fills a stage: messages of two senders, syncs, readers that delete, the receiver that is killed
and starts again. Then something happens to the files, and the stage is opened. It refuses, saying so, or it goes on;
what was synced is there, or whoever reads it is told that it is not: never missing in silence, never twice.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from uuid import UUID
from zlib import crc32

from tolliver.staging import FolderOptions, StageFolder, StageWriter
from tolliver.staging._folder import LOCK
from tolliver.staging._seen import Ids

from tolliver_proto import Message, Revision, StoreError, decode
from tolliver_proto.recording import SUFFIX, Block, Damage, read_blocks

from .bodies import Reader, bounded

SENDERS = (UUID("01890000-0000-7000-8000-000000000001"), UUID("01890000-0000-7000-8000-000000000002"))
_MOST_STEPS = 30
_CRC = 4  # bytes, at the end of a file of ids
_FRAMES = slice(6, 14)  # of such a file: behind magic and layout
_Sent = tuple[UUID, int | None, bytes]


class Story:
    """A stage, what was synced into it, and what may be missing from it."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self.options = FolderOptions(
            directory=directory,
            segment_bytes=segment_bytes,
            max_staged_bytes=10**6,
            full_timeout=0,
            lock_timeout=0,
            dedupe=10_000,
        )
        self.writer = StageWriter(self.options)
        self.added: list[_Sent] = []
        self.synced: list[_Sent] = []
        self.known: set[_Sent] = set()
        self.deleted = 0  # messages that readers are through with
        self.bodies = 0

    def add(self, which: int, number: int, count: int) -> None:
        """A run of messages: some are copies, some are others under an id that is known, some have no id."""
        sender = SENDERS[which]
        ids = [None if number == 255 else number + at for at in range(count)]
        messages = []
        for message_id in ids:
            self.bodies += 1
            body = self.bodies if message_id is None else count
            messages.append(Message("c", "k", b"%d" % body, message_id))
        fresh = [one for one in messages if (sender, one.message_id, one.body) not in self.known]
        assert self.writer.add(sender, which + 1, Revision.DRAFT_2, messages) == len(fresh), "copies are told apart"
        sent = [(sender, one.message_id, one.body) for one in fresh]
        self.known.update(sent)
        self.added += sent

    def sync(self) -> None:
        assert self.writer.sync()
        self.synced, self.added = self.synced + self.added, []
        assert self.writer.end.frames == len(self.synced)

    def read_away(self) -> None:
        """A reader is through with what is there and deletes it."""
        folder = StageFolder(self.options.directory)
        folder.delete_before(self.writer.end)
        self.deleted = folder.first().frames

    def restart(self) -> None:
        """A kill: what was not synced is gone, and is sent again."""
        self.writer.close()
        self.known -= set(self.added)
        self.added = []
        self.writer = StageWriter(self.options)
        assert self.writer.end.frames == len(self.synced), "a restart knows how much there was"

    def read(self) -> tuple[list[_Sent], bool]:
        """All that a reader finds, and whether it is told of anything that it cannot have."""
        folder = StageFolder(self.options.directory)
        found: list[_Sent] = []
        told = False
        for part in folder.ranges(folder.first(), self.writer.end):
            data = Path(part.file).read_bytes()[part.start : part.end]
            for block in read_blocks([data], part.start):
                if isinstance(block, Damage):
                    told = True
                    continue
                assert isinstance(block, Block)
                assert block.header.peer is not None
                for frame in decode(block.payload, block.header.revision):
                    assert isinstance(frame, Message)
                    found.append((block.header.peer, frame.message_id, frame.body))
        return found, told or len(found) != self.writer.end.frames - folder.first().frames  # as positions say


def stages(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes as such a story, and then damage to its files."""
    reader = Reader(data)
    first = reader.byte()
    directory = _folder() / "stage"
    shutil.rmtree(directory, ignore_errors=True)
    with bounded(512 * 1024, watch_memory):
        story = Story(directory, (100, 200, 400, 100_000)[first % 4])
        try:
            for _ in range(_MOST_STEPS):
                code, argument = reader.byte(), reader.byte()
                if not reader or code % 8 == 7:
                    break
                _step(story, code % 8, argument)
            whole = story.synced
            assert story.read() == (whole[story.deleted :], False), "what was synced is read, each message once"
            story.writer.close()
            damages = [_damage(directory, reader.bytes(4)) for _ in range(min(first // 4 % 4, 3))]
            _open_again(story, [one for one in damages if one])
        finally:
            story.writer.close()


def _step(story: Story, code: int, argument: int) -> None:
    if code in (0, 1):
        story.add(code, argument if argument < 100 else 255, argument % 5)
    elif code == 2:
        story.add(argument % 2, 1000 + 5 * story.bodies, argument % 40)
    elif code in (3, 4):
        story.sync()
    elif code == 5:
        story.restart()
    else:
        story.sync()
        story.read_away()


def _open_again(story: Story, damaged: list[str]) -> None:
    synced, kept = story.synced, story.synced[story.deleted :]
    try:
        story.writer = StageWriter(story.options)
        found, told = story.read()
    except StoreError:
        assert damaged, "a stage that nothing happened to"
        return
    there = iter(kept)
    assert all(one in there for one in found), "a message that was not staged, or twice, or in another order"
    torn_away = len(damaged) > 1 or (damaged and damaged[0] == "removed")  # as a reader removes it, or beyond repair
    assert told or torn_away or found == kept, f"{len(kept) - len(found)} messages are missing in silence: {damaged}"
    if not damaged:
        assert story.writer.end.frames == len(synced)
        before = story.bodies
        for sender, number, body in synced:
            again = [Message("c", "k", body, number)]
            assert story.writer.add(sender, 9, Revision.DRAFT_2, again) == (number is None), "a copy, staged again"
        assert story.bodies == before


def _damage(directory: Path, how: bytes) -> str:
    """One file is damaged, cut, removed, or has something behind it; says what happened."""
    which, kind, place, byte = how.ljust(4, b"\0")
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != LOCK)
    path = files[which % len(files)]
    data = path.read_bytes()
    at = place * max(1, len(data)) // 256
    if kind % 4 == 0:
        path.unlink()
        return "removed" if path.suffix == SUFFIX else f"removed {path.suffix or path.name}"
    if kind % 4 == 1:
        path.write_bytes(data[:at])
        return "" if at == len(data) else f"cut {path.name}"
    if kind % 4 == 2:
        path.write_bytes(data + bytes([byte]) * (place % 60 + 1))
        return f"longer {path.name}"
    if not data:
        return ""
    path.write_bytes(data[:at] + bytes([data[at] ^ (byte or 1)]) + data[at + 1 :])
    return f"changed {path.name}"


def stages_seeds() -> list[bytes]:
    """Stories of one and of many segments, with restarts and readers, and each file damaged in each way."""
    fill, again, away, end = bytes([0, 3, 1, 4, 2, 39, 3, 0]), bytes([5, 0]), bytes([6, 0]), bytes([7, 0])
    stories = (fill, fill * 3, fill + again + fill, fill * 2 + away + fill, fill * 2 + bytes([0, 3]) + again)
    found = [bytes([size]) + story + end for size in range(4) for story in stories]
    damages = [bytes([which, kind, place, 1]) for which in range(6) for kind in range(4) for place in (0, 100, 255)]
    for number, damage in enumerate(damages):
        found.append(bytes([4 + number % 4]) + stories[number % len(stories)] + end + damage)
        found.append(bytes([9]) + stories[1] + end + damage + damages[number - 7])
    return found


# The ids beside a segment.


def ids(data: bytes, *, watch_memory: bool = False) -> None:
    """Any bytes are such ids, or not: never an error, even where the checksum is right."""
    with bounded(64 * (len(data) + 1000), watch_memory):
        read = Ids.decode(data)
        frames = int.from_bytes(data[_FRAMES])
        checked = Ids.decode(data + crc32(data).to_bytes(_CRC)) if frames < 1000 else None  # as many ids are made
    assert read is None or read.encode() == data
    assert checked is None or checked.encode()[:-_CRC] == data


def ids_seeds() -> list[bytes]:
    """Ids of two senders, whole and cut, and with too many or too few told."""
    made = Ids()
    numbers = [*range(1, 6), 9, 9, *range(2**31, 2**31 + 20)]
    made.add(SENDERS[0], [(number, number * 7 % 2**32) for number in numbers], 50)
    made.add(SENDERS[1], [(0, 0)], 1)
    whole = made.encode()
    first_layout = bytes.fromhex("544c565300010000000000000005 00000001") + SENDERS[0].bytes + bytes(3) + b"\1"
    first_layout += bytes([0, 0, 0, 1, 0, 0, 0, 5])
    bare = whole[:-_CRC]
    changed = [bare[:at] + bytes([bare[at] ^ 3]) + bare[at + 1 :] for at in range(len(bare))]
    return [whole, bare, first_layout, *changed, *(bare[:size] for size in range(0, len(bare), 5)), Ids().encode()]


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(prefix="fuzz", dir=memory if memory.is_dir() else None)
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends
