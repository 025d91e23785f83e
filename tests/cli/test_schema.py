"""`tolliver send` and `tolliver listen` with protobuf bodies, which are JSON here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tolliver import cli
from tolliver.codecs import ProtobufTypes

from tests.cli.commands import SECONDS, listener, tolliver
from tests.cli.conftest import Who

PROTO = """syntax = "proto3";
package acme;
import "google/protobuf/any.proto";
message Reading { int32 percent = 1; string host_name = 2; google.protobuf.Any more = 3; }
message Note { string text = 1; }
"""


@pytest.fixture
def proto(tmp_path: Path) -> Path:
    path = tmp_path / "readings.proto"
    path.write_text(PROTO)
    return path


def test_json_goes_in_and_json_comes_out(who: Who, tmp_path: Path, proto: Path) -> None:
    typed = ("--proto", proto, "--type", "acme.Reading")
    more = {"@type": "type.googleapis.com/acme.Note", "text": "\u00e9"}
    (tmp_path / "lines").write_text('{"percent": 18}\n' + json.dumps({"hostName": "a", "more": more}) + "\n")
    start = ("--listen", "127.0.0.1:0", "--count", 3, "--json")
    with listener(tmp_path / "out", who("alice"), *start, *typed) as alice:
        there = ("--connect", alice.address, *who("bob", own=True), *typed)
        one = tolliver("send", "readings", "cpu0", '{"percent": 17, "host_name": "x\\u001b"}', *there)
        assert one.exit_code == 0, one.stderr
        assert tolliver("send", "readings", "cpu0", "--file", tmp_path / "lines", *there).exit_code == 0
        assert alice.process.wait(SECONDS) == 0
    values = [json.loads(line)["value"] for line in alice.lines()]
    assert values == [{"percent": 17, "host_name": "x\x1b"}, {"percent": 18}, {"host_name": "a", "more": more}]


def test_a_body_that_is_no_such_message_fails_and_is_told(who: Who, tmp_path: Path, proto: Path) -> None:
    (tmp_path / "one.desc").write_bytes(_descriptors(proto))
    typed = ("--descriptors", tmp_path / "one.desc", "--type", "acme.Reading")
    with listener(tmp_path / "out", who("alice"), "--listen", "127.0.0.1:0", "--count", 1, *typed) as alice:
        there = ("--connect", alice.address, *who("bob", own=True))
        assert tolliver("send", "readings", "cpu0", "\x0a", *there, "--timeout", 0.2).exit_code == 1
        alice.until_said("Protobuf(acme.Reading) raised DecodeError")
        assert tolliver("send", "readings", "cpu0", "{}", *there, *typed, "--no-wait").exit_code == 0
        assert alice.process.wait(SECONDS) == 0
    assert [line.split(" ", 2)[2] for line in alice.lines()] == ["'readings' 'cpu0' {}"]


def _descriptors(proto: Path) -> bytes:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    types = ProtobufTypes.of_files([proto])
    found = FileDescriptorSet()
    for name in ("google/protobuf/any.proto", proto.name):
        types.pool.FindFileByName(name).CopyToProto(found.file.add())
    body: bytes = found.SerializeToString()
    return body


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--proto", "readings.proto"), "of which type are the messages? Give --type"),
        (("--type", "acme.Reading"), "what is acme.Reading? Give --proto FILE.proto, or --descriptors FILE"),
        (("--type", "x", "--proto", "readings.proto", "--descriptors", "x"), "what is x? Give --proto"),
        (("--type", "Reading", "--proto", "readings.proto"), "there is no message type 'Reading': there are google"),
        (("--type", "acme.Reading", "--proto", "missing.proto"), "missing.proto"),
        (("--type", "acme.Reading", "--descriptors", "missing"), "missing: No such file"),
        (("--type", "acme.Reading", "--descriptors", "readings.proto"), "readings.proto: no descriptor set"),
        (("--type", "acme.Reading", "--proto", "broken.proto"), "broken.proto:1:9"),
    ],
)
def test_an_error_says_what_to_do(
    options: tuple[str, ...], said: str, proto: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(proto.parent)
    Path("broken.proto").write_text("message {")
    result = tolliver("send", "c", "k", "{}", "--plaintext", "--database", "x.db", "--connect", "127.0.0.1:1", *options)
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("{", "the message is no acme.Reading in JSON"),
        ('{"percent": "much"}', "the message is no acme.Reading in JSON"),
        ('{"unknown": 1}', "the message is no acme.Reading in JSON"),
        ("[" * 5000, "the message is no acme.Reading in JSON"),
        ("-", "line 2 is no acme.Reading in JSON"),
    ],
    ids=["cut off", "another type", "another field", "deep", "a line"],
)
def test_what_is_no_such_message_is_not_sent(
    typed: str, said: str, proto: Path, who: Who, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(proto.parent)
    options = ("--timeout", 0, "--connect", "127.0.0.1:1", "--proto", proto, "--type", "acme.Reading")
    result = tolliver("send", "c", "k", typed, *who("bob", own=True), *options, stdin=b"{}\n{\n")
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_missing_extra_is_named(proto: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    arguments = ["send", "c", "k", "{}", "--proto", str(proto), "--type", "acme.Reading", "--connect", "127.0.0.1:1"]
    monkeypatch.setattr(sys, "argv", ["tolliver", *arguments])
    with pytest.raises(SystemExit, match=r"tolliver: .*grpc_tools is missing: pip install 'tolliver-proto\[protoc\]'"):
        cli.main()
