"""Examples of docs/cli.md, run as they are typed there.

The page is read from the top. Its output must be what is written there, but for times and identities. A `listen` is
started and looked at when the page is through, as it ends by itself after what the later examples send, and so are
`publish` and `stage`, which are interrupted; all else runs at once.
"""

from __future__ import annotations

import re
import shlex
import signal
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from tolliver._messages.recorder import Recorder

from tests.cli.commands import SECONDS, Listener, running, tolliver
from tests.ports import free_address
from tests.wire.vectors import D2, ONE, TWO
from tolliver_proto import Ack, HandshakeFinal, HandshakeResponse, HandshakeStatus, Message, Subscription, encode

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
VARYING = (
    (r"\t+| {2,}", " "),  # columns, which are aligned on the page
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\d\d:\d\d:\d\d\.\d\d\d [0-9a-f]{8} ", "TIME PEER "),
    (r"\d{8}T\d{6}\.\d{9}Z", "STAMP"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d", "WHEN"),
    (r"^\d\d:\d\d:\d\d\.\d\d\d ", "TIME "),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "DATE"),
    (r"(in|out) 00000002 \d+ ", r"\1 00000002 OFFSET "),  # behind a table that is compressed
    (r": byte \d+: the file ends", ": byte OFFSET: the file ends"),
    (r"in [\d.]+ s \([\d,]+/s(, [\d,]+ B/s)?\)", "in SECONDS (RATE)"),
    (r": 127\.0\.0\.1:\d+ \(", ": PEER ("),
    (r", in [\d.]+ s$", ", in SECONDS"),
    (r"into /\S+/staged;", "into staged;"),
    (r"\b[0-9a-f]{64}\b", "KEY"),
    (r"localhost, (\S+, )?127", "localhost, HOST, 127"),
    (r"^ +| +$", ""),
)


class Example(NamedTuple):
    arguments: list[str]
    output: list[str]


def examples() -> list[Example]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for typed in re.split(r"^\$ tolliver ", block, flags=re.MULTILINE)[1:]:
            command, *output = typed.splitlines()
            found.append(Example(shlex.split(command), output))
    return found


def steady(lines: list[str]) -> list[str]:
    """Without what differs from run to run; the two streams have no order between them."""
    for pattern, word in VARYING:
        lines = [re.sub(pattern, word, line) for line in lines]
    return sorted(lines)


def alice_in(lines: list[str]) -> str:
    """Her UUID, in what `tolliver certs` says."""
    return next(line.split()[1] for line in lines if line.startswith("alice"))


def test_the_page_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address, streams, stage = free_address(), free_address(), free_address()
    Path("lines.txt").write_text("line 1\nline 2\n")
    Path("weather.proto").write_text('syntax = "proto3"; package acme; message Weather { int32 degrees = 1; }')
    final, message = encode(HandshakeFinal(True), D2), encode(Message("test", "key", b"hi", 1), D2)
    Path("recorded.bin").write_bytes(final + message + encode(Ack(1), D2))
    Path("cut.bin").write_bytes(final + message[:-1])

    with closing(Recorder(Path("recordings"), ONE, D2, pytest.fail)) as recorder:
        hello = HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION, (Subscription("weather", ""),))
        recorder.received(1, encode(hello, D2))
        recorder.sent(1, [encode(Message("weather", "berlin", b"21 degrees", 1), D2)])
        recorder.received(1, encode(Ack(1), D2))
    (recording,) = Path("recordings").glob("*.rec")
    whole = recording.read_bytes()
    Path("torn.rec").write_bytes(whole + whole[:150])

    def here(text: str) -> str:
        for shown_address, ours in (("7011", address), ("7012", streams), ("7013", stage)):
            text = text.replace(f"127.0.0.1:{shown_address}", ours)
        return text.replace(alice_there, alice_here)

    shown = examples()
    assert len(shown) == 27
    certs, *rest = shown
    made = tolliver(*certs.arguments)
    assert steady((made.stdout + made.stderr).splitlines()) == steady(certs.output)
    alice_there, alice_here = alice_in(certs.output), alice_in(made.stdout.splitlines())
    listening: list[tuple[Listener, Example]] = []
    with ExitStack() as stack:
        for example in rest:
            arguments = [here(argument) for argument in example.arguments]
            if arguments[0] in ("listen", "publish", "stage"):
                output = Path(f"out{len(listening)}")
                listening.append((stack.enter_context(running(output, *arguments)), example))
                continue
            if "--timeout" in arguments:
                assert listening[-1][0].process.wait(SECONDS) == 0
            result = tolliver(*arguments)
            assert steady((result.stdout + result.stderr).splitlines()) == steady([*map(here, example.output)])
        for alice, example in listening:
            alice.until_said("is gone" if example.arguments[0] == "publish" else "Ctrl-C ends")
            if example.arguments[0] != "listen":
                alice.process.send_signal(signal.SIGINT)
            assert alice.process.wait(SECONDS) == 0
            said = [*alice.until_said(""), *alice.lines()]
            assert steady(said) == steady([here(line) for line in example.output])
