"""Bugs in who is let in: TLS, certificates, access lists.

The idea: a check that is left out harms nobody until somebody comes who should have been refused.
"""

from __future__ import annotations

from .bug import Bug

TLS = "transports/tolliver/_tls/pump.py"
POLICY = "transports/tolliver/_tls/policy.py"
KEYLOG = "transports/tolliver/_tls/keylog.py"
X509 = "transports/tolliver/_tls/x509.py"
OPTIONS = "transports/tolliver/_options/instance.py"
ACL_FILE = "transports/tolliver/_options/acl_file.py"

BUGS = (
    Bug(
        "tls: no certificate is asked for",
        POLICY,
        "_context",
        "ssl.CERT_REQUIRED",
        "ssl.CERT_OPTIONAL",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: any host name will do",
        POLICY,
        "client_context",
        "check_hostname and not tls.insecure_ca_only",
        "False",
        ("tests/tls/test_handshake.py::test_host_names_are_checked_unless_it_is_spelt_out",),
    ),
    Bug(
        "tls: the system's authorities are trusted",
        POLICY,
        "_load",
        "_trust(context, tls.ca)",
        """
        _trust(context, tls.ca)
        context.load_default_certs()
        """,
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: 1.2 without being asked",
        POLICY,
        "_context",
        "ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3",
        "ssl.TLSVersion.TLSv1_2",
        ("tests/tls/test_handshake.py::test_only_tls_1_3_by_default",),
    ),
    Bug(
        "tls: sessions are resumed",
        POLICY,
        "server_context",
        "context.num_tickets = 0",
        "",
        ("tests/tls/test_handshake.py::test_policy",),
    ),
    Bug(
        "tls: what nobody reads any more is kept",
        TLS,
        "receive",
        "self._no_more or self._closed_by_peer or self._failure",
        "self._no_more or self._closed_by_peer",
        ("tests/tls/test_handshake.py::test_what_nobody_reads_any_more_is_not_kept",),
    ),
    Bug(
        "tls: a pin is not looked at",
        TLS,
        "_check_peer",
        "check_pin(self._remote, identity)",
        "pass",
        ("tests/tls/test_handshake.py::test_another_than_the_pinned_peer",),
    ),
    Bug(
        "tls: whoever could read the key log still can",
        KEYLOG,
        "log_keys",
        "make_private(descriptor)",
        "None",
        ("tests/tls/test_keylog.py::test_every_connection_leaves_its_secrets",),
    ),
    Bug(
        "tls: secrets are written without a word",
        POLICY,
        "__init__",
        "warn(tls.keylog)",
        "None",
        ("tests/tls/test_keylog.py::test_the_log_warns_once_for_each_file",),
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
        "tls: a handshake under way ends by the old list",
        TLS,
        "_check_peer",
        "raise revocation",
        "pass",
        ("tests/tls/test_revocation.py::test_a_handshake_that_the_list_overtakes_fails",),
    ),
    Bug(
        "tls: who is revoked is refused by nobody",
        POLICY,
        "_look_up",
        "ssl.VERIFY_CRL_CHECK_LEAF",
        "ssl.VERIFY_DEFAULT",
        ("tests/tls/test_revocation.py::test_a_list_of_another_time_or_ca",),
    ),
    Bug(
        "tls: a pinned peer needs no CA",
        POLICY,
        "__init__",
        "self.identity = _met_by_itself(read_once, self._by_pin, self._server)",
        """
        self._by_pin.verify_mode = ssl.CERT_NONE
        self.identity = _met_by_itself(read_once, self._by_pin, self._server)
        """,
        ("tests/tls/test_handshake.py::test_an_instance_needs_nothing_but_its_options",),
    ),
    Bug(
        "tls: the pin is the certificate's, not the key's",
        X509,
        "identity_of",
        "subject_public_key_info(der)",
        "der",
        ("tests/tls/test_certs.py::test_own_identity_is_what_others_see",),
    ),
    Bug(
        "tls: a cut is taken for an orderly end",
        TLS,
        "_pull",
        "self._cut_off = True",
        "self._closed_by_peer = True",
        ("tests/tls/test_stream.py::test_an_end_without_close_notify_is_told_apart",),
    ),
    Bug(
        "tls: our end drops what has come",
        TLS,
        "close_notify",
        """
        self._pull()
        if self._identity is None or self._write_closed or self._failure is not None or self._cut_off:
            return
        """,
        """
        if self._identity is None or self._write_closed or self._failure is not None or self._cut_off:
            return
        """,
        ("tests/tls/test_stream.py::test_close_with_their_data_in_flight",),
    ),
    Bug(
        "tls: the end before the data",
        TLS,
        "peer_closed",
        "self._closed_by_peer and not self._read_ahead",
        "self._closed_by_peer",
        ("tests/tls/test_stream.py::test_the_end_is_not_told_before_the_data",),
    ),
    Bug(
        "tls: a refusal is taken for a lost line",
        X509,
        "explain",
        "refusal is not None and not self.heard",
        "False",
        ("tests/tls/test_handshake.py::test_refused_certificate",),
    ),
    Bug(
        "tls: a garbled UUID counts as none",
        X509,
        "_uuid",
        """
        if match is None:
            raise ValueError(f"{urn!r} is no UUID")
        return UUID(match[1])
        """,
        "return UUID(match[1]) if match else UUID(int=1)",
        ("tests/tls/test_handshake.py::test_a_garbled_uuid_is_refused",),
    ),
    Bug(
        "plaintext leaves this machine",
        OPTIONS,
        "_require_loopback",
        "self.plaintext and not is_loopback(host)",
        "False",
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "any name is this machine",
        OPTIONS,
        "is_loopback",
        'host == "localhost"',
        'host.startswith("localhost")',
        ("tests/tls/test_options.py::test_plaintext_does_not_leave_this_machine",),
    ),
    Bug(
        "access file: deny allows",
        ACL_FILE,
        "",
        "Rights.none",
        "Rights",
        ("tests/tls/test_acl_file.py::test_a_whole_file",),
    ),
    Bug(
        "access file: an unknown entry is passed over",
        ACL_FILE,
        "_check_names",
        "table.keys() - {*known}",
        "table.keys() & set()",
        ("tests/tls/test_acl_file.py::test_mistakes",),
    ),
)
