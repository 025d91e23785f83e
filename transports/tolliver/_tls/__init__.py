"""TLS for every adapter: one policy, and no I/O.

`policy` creates the contexts (mutual TLS under a private CA, no resumption: D-1, D-2); `pump` encrypts and decrypts
without a socket; `x509` reads certificates and explains why one was refused. TLS is separate from sockets so that every
loop has the same half-close, the same records and the same errors.
"""
