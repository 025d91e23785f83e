"""TLS of every adapter: one policy, and no I/O.

`policy` makes the contexts (mutual TLS under a private CA, no resumption: D-1, D-2), `pump` turns ciphertext into
plaintext and back without a socket, `x509` reads certificates and says in words why one was refused. TLS stands apart
from sockets so that every loop gets the same half-close, the same records and the same errors.
"""
