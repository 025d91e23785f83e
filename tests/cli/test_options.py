"""The table of options: every option of an instance is in it, and reaches the instance from a command line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from tolliver._cli.commands import choices
from tolliver._options.kinds import kind_of, seconds
from tolliver._options.reading import arguments, parse, read, show_default
from tolliver._options.table import TABLE, flag_of, unknown
from tolliver._options.tls import TLS
from tolliver.anyio import InstanceOptions

from tests.cli.commands import tolliver
from tests.wire.vectors import ONE, TWO
from tolliver_proto import Limits, Policy, Revision, Subscription
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import QuotaPolicy

REQUIRED = {"tls.cert", "tls.key", "tls.ca"}
OF_PROGRAMS = {"handlers", "responders", "on_event"}
GIVEN = {
    "": True,
    "N": "7",
    "N|none": "2",
    "VERSION": ["3"],
    "SECONDS": "77s",
    "SECONDS|none": "2m",
    "BYTES": "300KiB",
    "HOST:PORT": "127.0.0.1:0",
    "unix:PATH": "unix:run/s?mode=660",
    "UUID": str(ONE),
    "raise|drop_oldest|skip": "skip",
    "none|zlib": "zlib",
    "off|ack|message": "ack",
    "UUID=POLICY": [f"{ONE}=skip", f"{TWO}=raise"],
    "HABIT,...": "unreliable-id:4294967295,strict-uuid7,control-messages:0,subscriptions:back",
    "UUID=HABIT,...": [f"{ONE}=version:3,strict-uuid7,accept-either:0"],
}
GENERATED = [
    key
    for key in TABLE
    if key not in choices.OWN_FLAGS and not key.startswith("tls.") and not TABLE[key].takes.startswith("[")
]


def test_every_option_that_answers_a_sentence_is_in_it() -> None:
    parts = {"tls": TLS, "policy": Policy, "limits": Limits}
    told = {
        f"{part}.{one.name}".removeprefix("policy."): one.metadata
        for part, kind in parts.items()
        for one in (attrs.fields(kind) if part == "tls" else dataclasses.fields(kind))
    } | {one.name: one.metadata for one in attrs.fields(InstanceOptions) if one.name not in parts}
    assert {*TABLE} == {key for key, metadata in told.items() if metadata.get("sentence")}
    assert {key for key, metadata in told.items() if not metadata} - {"dialect", "dialects"} == OF_PROGRAMS
    for key, entry in TABLE.items():
        assert re.fullmatch(r".*[^.]", entry.help), key
        assert re.fullmatch(r"[A-Z].*\.", entry.sentence), key
    assert (
        len({entry.sentence for entry in TABLE.values()}) == len(TABLE) <= 61
    )  # the socket for local programs came last


@pytest.mark.parametrize("key", [key for key in TABLE if key not in REQUIRED | {"acl", "speaks"}])
def test_a_default_is_written_as_it_is_read(key: str) -> None:
    entry = TABLE[key]
    shown, default = show_default(entry), entry.default
    if entry.many:
        assert (shown, default or ()) == ("", ())
    elif entry.takes and default is not None:
        assert kind_of(entry).parse(shown) == default
        assert type(kind_of(entry).parse(shown)) is type(default)
    else:
        assert shown in ("", "none", "false")


def place(**given: Any) -> InstanceOptions:
    """Options of an instance, of what is typed."""
    chosen = {one.name: one.default for one in inspect.signature(choices.place_of).parameters.values()}
    here = {"at": "127.0.0.1:0", "plaintext": True, "revision": Revision.DRAFT_2}
    return choices.place_of(**chosen | here | given).options(dial=False)


@pytest.mark.parametrize("key", GENERATED)
def test_each_reaches_the_instance(key: str, tmp_path: Path) -> None:
    sample = GIVEN[TABLE[key].takes]
    with_it = {"dedupe": "5"} if key == "dedupe_durable" else {}
    options = place(database=tmp_path / "node.db", **with_it, **{key.replace(".", "__"): sample})
    part = TABLE[key].part
    got = getattr(getattr(options, part) if part else options, key.rpartition(".")[2])
    if key == "speaks":
        assert (got(3), got(4)) == (True, False)
        return
    if key == "status":
        assert got == ("127.0.0.1", 0)
        return
    assert got == kind_of(TABLE[key]).parse(sample)
    assert got != TABLE[key].default


def test_what_stands_for_one_peer(tmp_path: Path) -> None:
    policies, dialects = GIVEN["UUID=POLICY"], GIVEN["UUID=HABIT,..."]
    options = place(database=tmp_path / "node.db", quota_policies=policies, dialects=dialects)
    assert options.policy.quota_policies == {ONE: QuotaPolicy.SKIP, TWO: QuotaPolicy.RAISE}
    assert options.dialects == {ONE: Dialect(version=3, strict_uuid7=True, accept_either=False)}


def test_every_habit_of_a_peer_is_said_in_words_and_in_a_file() -> None:
    kind = kind_of(TABLE["dialects"])
    said = (
        "version:3,unreliable-id:0,announce-after-handshake,control-messages:0,strict-uuid7:0,accept-either:1,"
        "revision:rust-2026"
    )
    meant = Dialect(
        version=3,
        unreliable_id=0,
        announce_after_handshake=True,
        control_messages=False,
        strict_uuid7=False,
        accept_either=True,
        revision=Revision.RUST_2026,
        subscriptions=(Subscription("back", ""), Subscription("orders", "")),
    )
    assert kind.parse([f"{ONE}={said},subscriptions:back,subscriptions:orders"]) == {ONE: meant}
    table = {field.name: getattr(meant, field.name) for field in dataclasses.fields(Dialect)}
    assert all(value is not None for value in table.values())
    written = table | {"revision": "rust-2026", "subscriptions": ["back", ["orders", ""]]}
    assert read({"dialect": written, "dialects": {str(ONE): written}}, TABLE, Path()) == {
        "dialect": meant,
        "dialects": {ONE: meant},
    }
    assert kind.parse([kind.show({ONE: Dialect(revision=Revision.DRAFT_2, strict_uuid7=True)})]) == {
        ONE: Dialect(revision=Revision.DRAFT_2, strict_uuid7=True)
    }


HERE = ("--plaintext", "--database", "d.db", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("listen", *HERE, "--limits.max-body", "much"), "--limits.max-body: 'much': give a number of bytes"),
        (("send", "c", "k", "x", *HERE, "--expire-after", "soon"), "--expire-after: 'soon': give seconds"),
        (("replay", "tests", *HERE, "--probe", "loud"), "--probe: 'loud': give one of off, ack, message"),
        (("listen", *HERE, "--quota-policies", "skip"), "--quota-policies: 'skip': give a UUID, an equals sign"),
        (("listen", *HERE, "--dialects", f"{ONE}=odd"), "--dialects: 'odd' is no habit of a peer"),
        (("listen", *HERE, "--dialects", f"{ONE}=revision:go"), "--dialects: 'go' is no layout: give one of 1, 2, go-"),
        (("listen", *HERE, "--dialects", f"{ONE}=version"), "--dialects: '': give a whole number"),
        (("listen", *HERE, "--dialects", f"{ONE}=strict-uuid7:2"), "--dialects: '2': give the word alone, or 0 or 1"),
        (("listen", *HERE, "--dialect", "odd"), "--dialect: 'odd' is no habit of a peer"),
        (("listen", *HERE, "--dialect", "revision:go-2026"), "that of everybody is the option `revision`"),
        (
            ("listen", *HERE, "--dialect", "unreliable-id:5"),
            "unreliable_id is 5: ids from 1 to 2^31-2 are messages' own",
        ),
        (("stage", "staged", *HERE[:1], *HERE[3:], "--dialect", "unreliable-id:5"), "ids from 1 to 2^31-2 are"),
        (("listen", *HERE, "--tls.tls12"), "--tls.tls12 with --plaintext: there is no TLS then"),
        (("listen", *HERE, "--dedupe-durable"), "say how many messages to remember"),
        (("stage", "staged", *HERE[:1], *HERE[3:], "--limits.max-handshake", "x"), "--limits.max-handshake: 'x'"),
        (("listen", *HERE, "--connect", "nobody@localhost"), "'nobody' before the @ is no peer"),
        (("listen", *HERE, "--connect", "localhost", "--spki", "ab"), "--spki 'ab': give the 64 hexadecimal digits"),
        (("listen", *HERE, "--spki", "ab" * 32), "--spki pins the one peer of --connect"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").touch()
    result = tolliver(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_they_are_listed() -> None:
    listed = [json.loads(line) for line in tolliver("options", "--json").stdout.splitlines()]
    assert [one["key"] for one in listed] == [*TABLE]
    body = next(one for one in listed if one["key"] == "limits.max_body")
    assert (body["flag"], body["takes"], body["default"]) == ("--limits.max-body", "BYTES", "16MiB")
    assert (body["unit"], body["sentence"]) == ("bytes", "My messages are larger than 16 MiB.")
    head, *rows = tolliver("options").stdout.splitlines()
    assert head.split("\t") == ["flag", "key", "takes", "default", "help", "sentence"]
    assert [row.split("\t")[0] for row in rows] == [flag_of(key) for key in TABLE]


# Peers that are known by more than their address.


def test_a_peer_in_front_of_its_address(tmp_path: Path) -> None:
    database = tmp_path / "node.db"
    remotes = choices.place_of(
        **{one.name: one.default for one in inspect.signature(choices.place_of).parameters.values()}
        | {"connect": [f"{ONE}@[::1]:7", f"{'ab' * 32}@localhost"], "plaintext": True, "database": database}
    ).remotes
    assert [(one.host, one.port, one.identity, one.spki_sha256) for one in remotes] == [
        ("::1", 7, ONE, None),
        ("localhost", 7011, None, b"\xab" * 32),
    ]
    assert str(remotes[0]) == "[::1]:7"


# Files.

FILE = {
    "listen": "127.0.0.1:0",
    "database": "node.db",
    "plaintext": True,
    "expire_after": "1.5h",
    "forget_after": "7d",
    "stuck_after": "none",
    "subscriptions": ["a", ["b", "c"]],
    "remotes": [f"{ONE}@localhost:7"],
    "quota_policies": {str(ONE): "skip"},
    "dialects": {str(TWO): {"version": 3}},
    "limits": {"max_body": "1MiB", "close_timeout": 2, "redial_max": 1.5},
    "speaks": [2],
    "revision": 1,
}


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "1h"])
def test_a_time_after_which_peers_are_forgotten_is_positive(wrong: Any) -> None:
    with pytest.raises(ValueError, match="forget_after"):
        InstanceOptions(plaintext=True, policy=Policy(forget_after=wrong))


def test_a_file_makes_the_options() -> None:
    options = InstanceOptions(**arguments(read(FILE, TABLE, Path("/srv"))))
    assert options.database == Path("/srv/node.db")
    policy = options.policy
    assert (policy.expire_after, policy.forget_after, policy.stuck_after) == (5400.0, 7 * 86400.0, None)
    assert options.subscriptions == (("a", ""), ("b", "c"))
    assert options.remotes[0].identity == ONE
    assert options.limits == Limits(max_body=2**20, close_timeout=2, redial_max=1.5)
    assert (policy.quota_policies, options.dialects) == ({ONE: QuotaPolicy.SKIP}, {TWO: Dialect(version=3)})
    assert options.speaks(2)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"databse": "x"}, "there is no option 'databse': is database meant?"),
        ({"limits": {"max_bdy": 1}}, "there is no option 'limits.max_bdy': is limits.max_body meant?"),
        ({"max_body": 1}, "there is no option 'max_body': is limits.max_body meant?"),
        ({"limits": 5}, "there is no option 'limits'"),
        ({"quite_something_else": 1}, "`tolliver config example` shows them all"),
        ({"dedupe": "many"}, "dedupe: it is 'many': write a whole number"),
        ({"dedupe": True}, "dedupe: it is True: write a whole number"),
        ({"plaintext": 1}, "plaintext: it is 1: write true or false"),
        ({"database": 1}, "database: it is 1: write a text in quotes"),
        ({"remotes": "localhost"}, "remotes: it is 'localhost': write a list"),
        ({"subscriptions": [["a"]]}, 'write a channel, or ["channel", "key"]'),
        ({"quota_policies": ["skip"]}, "write a table with a line for each peer"),
        ({"quota_policies": {"me": "skip"}}, "'me' is no UUID"),
        ({"dialects": {str(ONE): 5}}, "it is 5: write a table"),
        ({"revision": 3}, "revision: '3' is no layout: give one of 1, 2, go-seed"),
        ({"identity": "x"}, "identity: 'x' is no UUID"),
    ],
)
def test_a_file_that_cannot_be_meant(document: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        read(document, TABLE, Path())


def test_half_of_the_certificates() -> None:
    with pytest.raises(ValueError, match=r"tls\.key is missing"):
        arguments(read({"tls": {"cert": "a"}}, TABLE, Path()))


@pytest.mark.parametrize(
    ("text", "number"), [("1.5", 1.5), ("90s", 90), ("250ms", 0.25), ("10 m", 600), ("7d", 604800)]
)
def test_times_have_units(text: str, number: float) -> None:
    assert seconds(text) == pytest.approx(number)


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("64KiB", 65536), ("1.5 MiB", 3 * 2**19), ("2GB", 2 * 10**9)])
def test_sizes_have_units(text: str, number: int) -> None:
    assert parse({"min_free": text}) == {"min_free": number}


def test_the_nearest_is_found_by_its_last_part() -> None:
    assert "limits.redial_max" in unknown("redail_max", TABLE.keys())
