"""TLS matrix (V18): refusals, errors, words and retries, in both roles.

The other side is Python's own `ssl` with whatever certificate the case needs, since no instance would start with a bad
one. Of each case it is known which error a dialler raises, or what a listener's guest is told.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import pytest
from tolliver._options.instance import TLS
from tolliver._tls.policy import client_context, server_context

from tests.certificates import Certificates
from tests.raw import PATIENCE, RawListener, RawPeer
from tolliver_proto import Closed, HandshakeRequest, IdentityConflict, Limits, NoticeKind, Revision, encode
from tolliver_proto.errors import CertificateError

from .facade import Facade, until
from .nodes import SOMEBODY, Inbox, Nodes, address, connected, error_of, gave_up, noticed

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
QUICK = Limits(redial_first=0.005, redial_max=0.05)

versions = pytest.mark.parametrize("version", [TLS13, TLS12], ids=["1.3", "1.2"])


def limited(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = version
    return context


# As a dialler.


def answers_as(certs: Certificates, name: str) -> Callable[[socket.socket], None]:
    """Answers of a listener of that name, until it is left."""

    def serve(stream: socket.socket) -> None:
        raw = RawPeer.accepted(stream, certs.uuid(name))
        raw.establish()
        raw.read_to_the_end()

    return serve


def bad_listener(certs: Certificates, name: str) -> ssl.SSLContext:
    if name == "trusts another CA":
        good = certs.tls("right", tls12=True)
        return server_context(TLS(good.cert, good.key, certs.tls("stranger").ca, tls12=True))
    return server_context(certs.tls(name, tls12=True))


@versions
def test_a_good_listener(nodes: Nodes, certs: Certificates, version: ssl.TLSVersion) -> None:
    context = limited(server_context(certs.tls("right", tls12=True)), version)
    with (
        RawListener(context, answers_as(certs, "right")) as listener,
        nodes.open("left", tls=certs.tls("left", tls12=True)) as left,
    ):
        assert left.new_connection(listener.address) == certs.uuid("right")


WE_REFUSE = "we refuse the certificate of "
REFUSED_LISTENERS = {
    # name: whom we dial, what our error says, what the listener is told
    "of another CA": ("stranger", f"{WE_REFUSE}.*self-signed certificate in certificate chain", "UNKNOWN_CA"),
    "of another host": ("elsewhere", f"{WE_REFUSE}.*IP address mismatch", "BAD_CERTIFICATE"),
    "expired": ("expired", f"{WE_REFUSE}.*certificate has expired", "CERTIFICATE_EXPIRED"),
    "not yet valid": ("future", f"{WE_REFUSE}.*certificate is not yet valid", "BAD_CERTIFICATE"),
    "serves as a client only": ("dialler", f"{WE_REFUSE}.*unsuitable certificate purpose", "UNSUPPORTED_CERTIFICATE"),
    "refuses us": ("trusts another CA", "refuses our certificate: unknown CA", "CERTIFICATE_VERIFY_FAILED"),
}


@versions
@pytest.mark.parametrize("case", REFUSED_LISTENERS)
def test_a_bad_listener_is_dialled_once(nodes: Nodes, certs: Certificates, case: str, version: ssl.TLSVersion) -> None:
    """T-73, T-74: each is CertificateError, and trying again is no use."""
    name, words, told = REFUSED_LISTENERS[case]
    context = limited(bad_listener(certs, name), version)
    with (
        RawListener(context, answers_as(certs, "right")) as listener,
        nodes.open("left", tls=certs.tls("left", tls12=True), limits=QUICK) as left,
    ):
        with pytest.raises(CertificateError, match=words):
            left.new_connection(listener.address)
        assert gave_up(left)
        assert noticed(left, NoticeKind.DIAL_GAVE_UP)
        until(lambda: listener.errors)
        assert re.search(told, listener.errors[0].replace(" ", "_").upper())
        assert listener.accepted == 1


def test_a_reset_after_the_refusal_changes_nothing(nodes: Nodes, certs: Certificates) -> None:
    """T-74: where a loop loses what came before a reset, the next dial tells."""
    context = limited(bad_listener(certs, "trusts another CA"), TLS13)
    with (
        RawListener(context, answers_as(certs, "right"), rude=True) as listener,
        nodes.open("left", limits=QUICK) as left,
    ):
        for _ in range(10):
            with pytest.raises(CertificateError, match="refuses our certificate: unknown CA"):
                left.new_connection(listener.address)
        assert gave_up(left)


def test_our_own_expired_certificate_is_refused_before_anybody_sees_it(nodes: Nodes) -> None:
    with (
        pytest.raises(CertificateError, match=r"our own certificate .* would be refused: certificate has expired"),
        nodes.open("expired"),
    ):
        pytest.fail("it opened")


def keeps_trying(left: Facade, listener: RawListener) -> None:
    waiting = left.start("new_connection", listener.address)
    until(lambda: listener.accepted >= 3, "a third dial")
    assert not waiting.done
    assert connected(left) == 0
    left.remove_connection(listener.address)
    waiting.outcome()


def _says_hello(stream: socket.socket) -> None:
    stream.sendall(b"220 this is no TLS\r\n")
    while stream.recv(65536):
        pass


def test_a_listener_without_tls_is_dialled_again(nodes: Nodes) -> None:
    """It may be somebody else's for the moment: T-73 retries what is no certificate error."""
    with RawListener(None, _says_hello) as listener, nodes.open("left", limits=QUICK) as left:
        keeps_trying(left, listener)


def test_a_listener_of_tls_1_2_is_no_peer_unless_it_is_admitted(nodes: Nodes, certs: Certificates) -> None:
    context = limited(server_context(certs.tls("right", tls12=True)), TLS12)
    with (
        RawListener(context, answers_as(certs, "right")) as listener,
        nodes.open("left", limits=QUICK) as left,
    ):
        keeps_trying(left, listener)


def test_tls_dialled_from_plaintext_is_dialled_again(nodes: Nodes, certs: Certificates) -> None:
    context = server_context(certs.tls("right"))
    with (
        RawListener(context, answers_as(certs, "right")) as listener,
        nodes.open("left", plaintext=True, limits=QUICK) as left,
    ):
        keeps_trying(left, listener)


def test_a_listener_that_claims_anothers_uuid_is_refused(nodes: Nodes, certs: Certificates) -> None:
    """D-3, T-72: what waits for the one that it claims to be stays."""
    with nodes.pair():
        pass  # the right one is known, and subscribes
    with (
        RawListener(server_context(certs.tls("mallory")), answers_as(certs, "right")) as listener,
        nodes.open("left", limits=QUICK) as left,
    ):
        left.send("news", "", b"for the right one")
        assert isinstance(error_of(left, listener.address), IdentityConflict)
        assert gave_up(left)
        assert str(certs.uuid("mallory")) in noticed(left, NoticeKind.IDENTITY_MISMATCH)[0]
        assert left.stats()["pending"] == 1
        assert listener.accepted == 1


# As a listener.


def guest(certs: Certificates, name: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    if name == "nobody":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(certs.ca)
    else:
        context = client_context(certs.tls(name, tls12=True))
    return limited(context, version)


def what_it_is_told(port: int | None, context: ssl.SSLContext) -> str:
    """OpenSSL's reason, as it came to a guest that says hello and waits for an answer."""
    with socket.create_connection(("127.0.0.1", port or 0), timeout=PATIENCE) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as stream:
                with suppress(ConnectionError):  # the alert may be there already (T-74)
                    stream.sendall(encode(HandshakeRequest(1, SOMEBODY), Revision.DRAFT_2))
                answer = stream.recv(1)
        except ssl.SSLError as error:
            return error.reason or ""
    return f"no alert, but {answer!r}"


def goes_on(node: Facade, certs: Certificates) -> None:
    """Only the good member that comes now is known."""
    with RawPeer(node.port or 0, certs.tls("left"), certs.uuid("left")) as raw:
        raw.establish()
        until(lambda: connected(node) == 1)
        assert [peer.uuid for peer in node.peers()] == [certs.uuid("left")]
    until(lambda: node.stats()["connections"] == 0)


@versions
def test_a_good_guest(nodes: Nodes, certs: Certificates, version: ssl.TLSVersion) -> None:
    with nodes.open("right", tls=certs.tls("right", tls12=True)) as right:
        with RawPeer(right.port or 0, guest(certs, "left", version), certs.uuid("left")) as raw:
            raw.establish()
            until(lambda: connected(right) == 1)
        goes_on(right, certs)


REFUSED_GUESTS = {
    # name: who comes, the alert in TLS 1.3, and in 1.2
    "no certificate": ("nobody", "TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    "of another CA": ("intruder", "TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_UNKNOWN_CA"),
    "expired": ("expired", "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    "not yet valid": ("future", "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_BAD_CERTIFICATE"),
    "serves as a server only": (
        "listener",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    ),
    "refuses us": ("stranger", "CERTIFICATE_VERIFY_FAILED", "CERTIFICATE_VERIFY_FAILED"),
}


@versions
@pytest.mark.parametrize("case", REFUSED_GUESTS)
def test_a_bad_guest_is_told_why_and_the_listener_goes_on(
    nodes: Nodes, certs: Certificates, case: str, version: ssl.TLSVersion
) -> None:
    name, *told = REFUSED_GUESTS[case]
    with nodes.open("right", tls=certs.tls("right", tls12=True)) as right:
        for _ in range(2):  # T-74: the reason comes every time, whatever is written first
            assert what_it_is_told(right.port, guest(certs, name, version)) == told[version is TLS12]
        goes_on(right, certs)


def test_a_guest_of_tls_1_2_is_refused_unless_it_is_admitted(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("right") as right:
        assert what_it_is_told(right.port, guest(certs, "left", TLS12)) == "TLSV1_ALERT_PROTOCOL_VERSION"
        goes_on(right, certs)


def test_a_guest_without_tls_gets_nowhere(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("right") as right:
        with RawPeer(right.port or 0, None, certs.uuid("left"), ["news"]) as raw, suppress(ConnectionError):
            raw.flush()
            with suppress(Exception):  # an alert of TLS comes, and no frame
                raw.read_to_the_end()
            assert all(isinstance(event, Closed) for event in raw.events)
        assert right.peers() == []
        goes_on(right, certs)


def test_a_guest_with_tls_at_a_plaintext_port_gets_nowhere(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("plain right", plaintext=True) as right, nodes.open("plain left", plaintext=True) as left:
        with socket.create_connection(("127.0.0.1", right.port or 0), timeout=PATIENCE) as stream, suppress(OSError):
            client_context(certs.tls("left")).wrap_socket(stream, server_hostname="127.0.0.1")
        left.new_connection(address(right))
        until(lambda: right.stats()["connections"] == 1)
        assert noticed(right, NoticeKind.PROTOCOL_ERROR)


def test_a_guest_that_claims_anothers_uuid_is_closed_out_before_a_response(nodes: Nodes, certs: Certificates) -> None:
    """D-3: it must not even learn what we subscribe to, and the victim's queue stays."""
    with nodes.pair():
        pass  # the right one is known, and subscribes
    with nodes.open("left") as left:
        left.send("news", "", b"for the right one")
        with RawPeer(left.port or 0, certs.tls("mallory"), certs.uuid("right"), ["news"]) as raw:
            raw.flush()
            raw.read_to_the_end()
        assert raw.records == [b""]
        assert [type(event) for event in raw.events] == [Closed]
        [detail] = noticed(left, NoticeKind.IDENTITY_MISMATCH)
        assert str(certs.uuid("mallory")) in detail
        inbox = Inbox()
        with nodes.open("right") as right:
            right.register_callback("news", "", inbox)
            left.new_connection(address(right))
            inbox.holds(1)
