"""Errors that programs catch by their names, and texts that say what to do next."""

from __future__ import annotations

import errno
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from tolliver._options.instance import InstanceOptions, Remote

from tests.certificates import Certificates
from tolliver_proto import ConnectionClosing, IdentityConflict, Receipt, TolliverError
from tolliver_proto.errors import AlreadyClosed, CannotListen, CertificateError, NotOpenYet

from .kinds import EACH_ADAPTER
from .nodes import Nodes, address, error_of


@EACH_ADAPTER
def test_a_port_in_use_is_an_oserror(nodes: Nodes) -> None:
    with (
        nodes.open("left") as left,
        pytest.raises(OSError, match="Choose another port") as taken,
        nodes.open("right", listen=address(left)),
    ):
        pass
    assert isinstance(taken.value, CannotListen)
    assert isinstance(taken.value, TolliverError)
    assert taken.value.errno == errno.EADDRINUSE


@EACH_ADAPTER
def test_not_open_yet_and_closed_have_names(nodes: Nodes) -> None:
    world: Any = nodes.world
    more = {"reactor": world._reactor} if world.kind == "twisted" else {}
    core = import_module(f"{world._adapter.__name__}.core").InstanceCore

    def send() -> int:
        return world._adapter.Instance(core(nodes.options("early"), **more)).unreliable_send("c", "k", b"")  # type: ignore[no-any-return]  # any adapter's

    early = world.start("send", send).outcome()
    assert isinstance(early, NotOpenYet)
    assert isinstance(early, ConnectionClosing)
    with nodes.open("left") as left:
        pass
    with pytest.raises(AlreadyClosed) as late:
        left.unreliable_send("c", "k", b"")
    assert isinstance(late.value, ConnectionClosing)


@EACH_ADAPTER
def test_only_a_receipt_is_waited_for(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with pytest.raises(TypeError, match="'x' is no receipt"):
            left.wait_acked("x")  # type: ignore[arg-type]  # that is the point
        left.wait_acked(Receipt(0, -1, []))


@EACH_ADAPTER
def test_a_certificate_without_a_uuid_is_pinned_by_its_key(nodes: Nodes, certs: Certificates) -> None:
    """D-2: the text says how, and with which key."""
    with nodes.open("there", tls=certs.tls("anonymous")) as there, nodes.open("left") as left:
        unnamed = error_of(left, address(there))
        assert isinstance(unnamed, CertificateError)
        assert "with the SHA-256 of its key in front of the @" in str(unnamed)
        wrong = error_of(left, Remote("127.0.0.1", there.port or 0, identity=certs.uuid("right")))
        assert isinstance(wrong, IdentityConflict)
        digest = str(wrong).partition('spki_sha256=bytes.fromhex("')[2][:64]
        pinned = Remote("127.0.0.1", there.port or 0, spki_sha256=bytes.fromhex(digest))
        assert left.new_connection(pinned) == there.instance_id


@EACH_ADAPTER
def test_a_database_of_another_uuid_says_how_to_make_its_certificate(nodes: Nodes, certs: Certificates) -> None:
    uuid = certs.uuid("left")
    with nodes.open("left"):
        pass
    with (
        pytest.raises(IdentityConflict, match=f"tolliver certs DIR NAME --uuid {uuid}"),
        nodes.open("left", tls=certs.tls("right")),
    ):
        pass


def test_a_port_alone_is_no_address() -> None:
    with pytest.raises(ValueError, match=r"'7011' is a port, and the host is missing: write \"127\.0\.0\.1:7011\""):
        InstanceOptions(plaintext=True, listen="7011")
    with pytest.raises(ValueError, match="the host is missing"):
        Remote.parse("7011")


@pytest.mark.parametrize(
    ("door", "module", "extra"),
    [("anyio", "anyio", "anyio"), ("twisted", "twisted", "twisted"), ("blocking", "attrs", "blocking")],
)
def test_a_missing_extra_is_named(door: str, module: str, extra: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; import tolliver.{door}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (f"ModuleNotFoundError: the module {module} is missing: pip install 'tolliver-proto[{extra}]'"), (
        done.stderr
    )


@EACH_ADAPTER
def test_a_handler_that_cannot_be_called_is_refused_at_once(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        for call in ("register_callback", "subscribe"):
            refused = left.start(call, "c", "k", "no function").outcome()
            assert isinstance(refused, TypeError), call
            assert "the handler 'no function' cannot be called: give a function" in str(refused)
        assert left.start("subscriptions").wait() == []
    with pytest.raises(TypeError, match="of which the last is a function"):
        nodes.options("left", handlers=[("c", "k", "no function")])
