"""Peers with planted faults: each is a running peer, and wrong somewhere."""

from __future__ import annotations

import ast
import socket
from typing import get_args

import pytest
from tolliver._tls.policy import client_context, server_context

from scripts.pages import DEFINED, HOMES
from scripts.planted.place import planted
from tests.certificates import Certificates

from .fault import Fault, Role
from .faults import FAULTS, faulty, main
from .peers import PROJECT

_PATIENCE = 60.0  # seconds
_SOME = [
    pytest.param(fault, fault.roles[-1], id=fault.name)
    for fault in FAULTS
    if fault.name in {"ack-on-receipt", "wrong-side-yields", "streams-no-complete"}
]
_EACH = [pytest.param(fault, role, id=f"{fault.name}-{role}") for fault in FAULTS for role in fault.roles]


def test_names_are_told_apart_and_have_no_spaces() -> None:
    names = [fault.name for fault in FAULTS]
    assert len({*names}) == len(names)
    assert [name for name in names if not name.isprintable() or " " in name] == []


def test_each_is_against_a_ruling() -> None:
    explained = {
        ruling for page in {*HOMES.values()} for ruling in DEFINED.findall((PROJECT / "docs" / page).read_text("utf-8"))
    }
    assert {fault.name: fault.ruling for fault in FAULTS if fault.ruling not in explained} == {}


def test_each_shows_in_a_role() -> None:
    assert [fault.name for fault in FAULTS if not fault.roles or not {*fault.roles} <= {*get_args(Role)}] == []


@pytest.mark.thorough
def test_every_place_is_there_once_and_what_is_planted_is_another_program() -> None:
    for fault in FAULTS:
        assert fault.bugs, f"{fault.name} has no edit"
        for bug in fault.bugs:
            path, text = planted(bug, PROJECT)
            assert text != ast.unparse(ast.parse(path.read_text("utf-8"))), fault.name


def test_the_list_says_what_each_does_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [fault.name for fault in FAULTS]
    assert main(["no-such-fault"]) == 2
    assert "no-such-fault" in capsys.readouterr().err


def meet(fault: Fault, role: Role, certs: Certificates) -> None:
    """Have a TLS connection with the running peer."""
    ours, _ = certs.tls("kit"), certs.tls("peer")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        here = f"127.0.0.1:{server.getsockname()[1]}"
        address, more = {
            "listen": ("127.0.0.1:0", ()),
            "dial": (here, ()),
            "cross": ("127.0.0.1:0", ("--remote", here)),
        }[role]
        with faulty(fault, role, address, certs.directory, "peer", *more) as said:
            if role != "dial":
                host, _, port = said.rpartition(":")
                with socket.create_connection((host, int(port)), _PATIENCE) as stream:
                    client_context(ours).wrap_socket(stream, server_hostname=host).close()
            if role != "listen":
                stream, _ = server.accept()
                with stream:
                    stream.settimeout(_PATIENCE)
                    server_context(ours).wrap_socket(stream, server_side=True).close()


@pytest.mark.parametrize(("fault", "role"), _SOME)
def test_a_peer_with_a_fault_runs(fault: Fault, role: Role, certs: Certificates) -> None:
    meet(fault, role, certs)


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "role"), _EACH)
def test_each_peer_with_a_fault_runs(fault: Fault, role: Role, certs: Certificates) -> None:
    meet(fault, role, certs)
