"""Bugs in TLS, access files and what may leave this machine."""

from __future__ import annotations

from .bug import Bug

BUGS = (
    Bug(
        "tls: no certificate is asked for",
        "transports/tolliver/_tls/policy.py",
        "_context",
        "ssl.CERT_REQUIRED",
        "ssl.CERT_OPTIONAL",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: any host name will do",
        "transports/tolliver/_tls/policy.py",
        "client_context",
        "check_hostname and not tls.insecure_ca_only",
        "False",
        ("tests/tls/test_handshake.py::test_host_names_are_checked_unless_it_is_spelt_out",),
    ),
    Bug(
        "tls: who is revoked may stay",
        "transports/tolliver/_driver/endpoint.py",
        "use_tls",
        "wire.abort()",
        "pass",
        ("tests/adapters/test_revocation.py::test_a_peer_that_is_listed_is_closed_out[asyncio]",),
    ),
    Bug(
        "plaintext leaves this machine",
        "transports/tolliver/_options/instance.py",
        "_require_loopback",
        "self.plaintext and not is_loopback(host)",
        "False",
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "access file: deny allows",
        "transports/tolliver/_options/acl_file.py",
        "",
        "Rights.none",
        "Rights",
        ("tests/tls/test_acl_file.py::test_a_whole_file",),
    ),
)
