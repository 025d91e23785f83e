"""Options: refused where they are written, with a remedy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st
from tolliver._options.instance import TLS, InstanceOptions, Remote
from tolliver._tls.material import read

from tolliver_proto import Limits, Policy, Revision
from tolliver_proto.errors import CertificateError

ID = UUID("01890000-0000-7000-8000-000000000001")
CERTS = TLS("a.pem", "a.key", "ca.pem")


def test_defaults() -> None:
    options = InstanceOptions(tls=CERTS)
    assert options.database == Path("node.db")
    assert (options.listen, options.remotes, options.identity) == (None, (), None)
    assert (options.revision, options.version, options.retry_interval) == (Revision.DRAFT_2, 1, 10.0)
    assert options.limits == Limits()
    assert not options.speaks(2)
    assert TLS(Path("a.pem"), Path("a.key"), Path("ca.pem"), insecure_ca_only=False, tls12=False) == CERTS


def test_a_relative_path_is_told_with_the_directory_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of Spark begins in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CertificateError, match=rf"^certs/a\.pem in {tmp_path} cannot be read \(No such file"):
        read(TLS("certs/a.pem", "certs/a.key", "certs/ca.pem"))
    with pytest.raises(CertificateError, match=rf"^{tmp_path}/a\.pem cannot be read \(No such file"):
        read(TLS(tmp_path / "a.pem", tmp_path / "a.key", tmp_path / "ca.pem"))


def test_everything_is_frozen() -> None:
    for thing, name in ((InstanceOptions(tls=CERTS), "version"), (CERTS, "ca"), (Remote("a"), "port")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, None)


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("db.example:9", "db.example", 9, "db.example:9"),
        ("db.example", "db.example", 7011, "db.example:7011"),
        ("10.0.0.1:65535", "10.0.0.1", 65535, "10.0.0.1:65535"),
        ("[::1]:7011", "::1", 7011, "[::1]:7011"),
        ("[fe80::1%eth0]", "fe80::1%eth0", 7011, "[fe80::1%eth0]:7011"),
    ],
)
def test_remotes(text: str, host: str, port: int, shown: str) -> None:
    remote = Remote.parse(text)
    assert remote == Remote(host, port)
    assert str(remote) == shown
    assert Remote.parse(shown) == remote
    assert Remote.parse(remote) is remote


labels = st.text("abcxyz0189-", min_size=1, max_size=20)
hosts = st.one_of(st.ip_addresses().map(str), st.lists(labels, min_size=1, max_size=4).map(".".join))


@given(host=hosts, port=st.integers(1, 65535))
def test_a_remote_can_be_written_down_and_read_again(host: str, port: int) -> None:
    assert Remote.parse(str(Remote(host, port))) == Remote(host, port)


def test_remotes_that_are_equal_are_one() -> None:
    pins: list[dict[str, Any]] = [{}, {"identity": ID}, {"spki_sha256": bytes(32)}]
    remotes = [Remote("a", **pin) for pin in pins]
    assert len({*remotes, Remote.parse("a"), Remote("a", 7011, ID)}) == 3
    assert [remote.pinned for remote in remotes] == [False, True, True]


remote: Any = Remote  # with the wrong types, on purpose
parse: Any = Remote.parse
tls: Any = TLS
options: Any = InstanceOptions
policy: Any = Policy


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: parse(""), ValueError, "Remote.host is ''"),
        (lambda: parse(":7011"), ValueError, "Remote.host is ''"),
        (lambda: parse("a:"), ValueError, "the port of 'a:' is no number"),
        (lambda: parse("a:b"), ValueError, "the port of 'a:b' is no number"),
        (lambda: parse("a:-1"), ValueError, "is no number"),
        (lambda: parse("a:\N{ARABIC-INDIC DIGIT ONE}"), ValueError, "is no number"),
        (lambda: parse("a:0"), ValueError, "Remote.port is 0: a port to dial is between 1 and 65535"),
        (lambda: parse("a:65536"), ValueError, "Remote.port is 65536"),
        (lambda: parse("::1"), ValueError, r'has several colons: write IPv6 as "\[::1\]"'),
        (lambda: parse("[::1"), ValueError, r'is not closed: write "\[::1\]:7011"'),
        (lambda: parse("[::1]7011"), ValueError, "is not closed"),
        (lambda: parse("tls://a"), ValueError, 'is a URL: write it without "tls://", as "a"'),
        (lambda: parse("tcp://a:7011"), ValueError, 'is a URL: write it without "tcp://", as "a:7011"'),
        (lambda: parse("a b"), ValueError, "without scheme, brackets or spaces"),
        (lambda: parse("a..b"), ValueError, "give a host name or an address"),
        (lambda: parse("x" * 64), ValueError, "give a host name or an address"),
        (lambda: parse("a\0"), ValueError, "give a host name or an address"),
        (lambda: parse(7011), TypeError, "the address 7011 is no text"),
        (lambda: remote(b"a"), TypeError, "Remote.host is b'a': give a host name"),
        (lambda: remote("a", "7011"), TypeError, "Remote.port is '7011': give a port number"),
        (lambda: remote("a", True), TypeError, "Remote.port is True"),
        (lambda: remote("a", identity=str(ID)), TypeError, "Remote.identity is .*: give a uuid.UUID"),
        (lambda: remote("a", identity=UUID(int=0)), ValueError, "nil and max name nobody"),
        (lambda: remote("a", spki_sha256="ab"), TypeError, r"give the digest as bytes: bytes.fromhex\(...\)"),
        (lambda: remote("a", spki_sha256=b"ab"), ValueError, "a SHA-256 has 32 bytes"),
        (lambda: tls(1, "k", "c"), TypeError, "a path must be a str or a PathLike, not 1"),
        (lambda: tls("", "k", "c"), ValueError, "a path is empty"),
        (lambda: tls("c", "k", "c", tls12=1), TypeError, "TLS.tls12 is 1: give True or False"),
        (lambda: tls("c", "k", "c", True), TypeError, "positional"),
        (lambda: options("node.db"), TypeError, "positional"),
        (lambda: options(), ValueError, "neither of the options tls and plaintext"),
        (lambda: options(tls=CERTS, plaintext=True), ValueError, "both of the options tls and plaintext"),
        (lambda: options(tls="a.pem"), TypeError, r"InstanceOptions.tls is 'a.pem': give TLS\(cert, key, ca\)"),
        (lambda: options(plaintext=1), TypeError, "InstanceOptions.plaintext is 1"),
        (lambda: options(tls=CERTS, database=None), TypeError, "a path must be"),
        (lambda: options(tls=CERTS, listen=":7011"), ValueError, '"0.0.0.0:7011" listens everywhere'),
        (lambda: options(tls=CERTS, listen="a:65536"), ValueError, "a port from 0 to 65535"),
        (lambda: options(tls=CERTS, listen=7011), TypeError, "the address 7011 is no text"),
        (lambda: options(tls=CERTS, retry_interval=0), ValueError, "give a positive number of seconds"),
        (lambda: options(tls=CERTS, retry_interval=-1.0), ValueError, "give a positive number of seconds"),
        (lambda: options(tls=CERTS, retry_interval=float("nan")), ValueError, "give a positive number"),
        (lambda: options(tls=CERTS, retry_interval=float("inf")), ValueError, "give a positive number"),
        (lambda: options(tls=CERTS, retry_interval="10"), TypeError, "give seconds as a number"),
        (lambda: options(tls=CERTS, remotes="a:1"), TypeError, "give a list"),
        (lambda: options(tls=CERTS, remotes=remote("a")), TypeError, "give a list"),
        (lambda: options(tls=CERTS, remotes=3), TypeError, "give a list"),
        (lambda: options(tls=CERTS, remotes=[3]), TypeError, "the address 3 is no text"),
        (lambda: options(tls=CERTS, revision=2), TypeError, "give one of Revision.DRAFT_1, Revision.DRAFT_2"),
        (lambda: options(tls=CERTS, version=-1), ValueError, "64-bit number"),
        (lambda: options(tls=CERTS, version=2**64), ValueError, "64-bit number"),
        (lambda: options(tls=CERTS, version="1"), TypeError, "give a whole number"),
        (lambda: options(tls=CERTS, speaks=2), TypeError, "give a function of a version"),
        (lambda: options(tls=CERTS, limits={}), TypeError, r"InstanceOptions.limits is {}: give a Limits"),
        (lambda: options(tls=CERTS, policy={}), TypeError, r"InstanceOptions.policy is {}: give a Policy"),
        (lambda: options(tls=CERTS, policy=policy(probe=1)), ValueError, "probe is 1: give one of"),
        (lambda: options(tls=CERTS, policy=policy(probe="ping")), ValueError, "give one of 'off', 'ack', 'message'"),
        (lambda: options(tls=CERTS, policy=policy(probe_interval="30")), ValueError, "Policy.probe_interval is '30'"),
        (lambda: options(tls=CERTS, policy=policy(probe_timeout=0)), ValueError, "probe_timeout is 0"),
        (lambda: options(tls=CERTS, policy=policy(max_connection_age=0)), ValueError, "max_connection_age is 0"),
        (lambda: options(tls=CERTS, policy=policy(max_connection_age="1 d")), ValueError, "above zero, or None"),
        (lambda: options(tls=CERTS, identity="x"), TypeError, "InstanceOptions.identity is 'x'"),
        (lambda: options(tls=CERTS, identity=UUID(int=2**128 - 1)), ValueError, "name nobody"),
    ],
)  # fmt: skip
def test_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


LOOPBACK = ("localhost", "127.0.0.1", "127.8.8.8", "[::1]")
ELSEWHERE = ("0.0.0.0", "[::]", "10.0.0.1", "localhost.example", "example.org", "[fd00::1]")


@pytest.mark.parametrize("host", LOOPBACK)
def test_plaintext_on_this_machine(host: str) -> None:
    options = InstanceOptions(plaintext=True, listen=f"{host}:0", remotes=[host])
    assert options.listen is not None
    assert options.listen[1] == 0
    assert options.remote(host) == options.remotes[0]


@pytest.mark.parametrize("host", ELSEWHERE)
def test_plaintext_does_not_leave_this_machine(host: str) -> None:
    """D-15. A name other than localhost can be made to lead anywhere."""
    for makes in (
        lambda: InstanceOptions(plaintext=True, listen=host),
        lambda: InstanceOptions(plaintext=True, remotes=["localhost", host]),
        lambda: InstanceOptions(plaintext=True).remote(host),
    ):
        with pytest.raises(ValueError, match="would leave this machine: give the option tls in place of plaintext"):
            makes()
    assert InstanceOptions(tls=CERTS, listen=host).remote(host).port == 7011


def test_options_can_be_changed_into_others() -> None:
    options = InstanceOptions(tls=CERTS, listen="[::1]:5", remotes=["a:1", Remote("b", identity=ID)])
    assert evolve(options) == options
    for first, second in itertools.permutations((1.0, 20.0, 400.0), 2):
        changed = evolve(evolve(options, retry_interval=first), retry_interval=second)
        assert changed.retry_interval == second
