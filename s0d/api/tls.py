"""TLS of the TCP listeners: a certificate that can be replaced while we serve.

TLS 1.2 at least; with `client_ca` every client must show a certificate that it signed, beside its
token.  `reload` reads the files again: connections that are open keep what they began with, and
files that cannot be used change nothing.
"""

from __future__ import annotations

import ssl
from typing import Final

from s0d.model.errors import InvalidRequest

PROTOCOLS: Final = ["h2", "http/1.1"]
# Of TLS 1.2 only those with forward secrecy and authenticated encryption (RFC 9113, section 9.2.2);
# what TLS 1.3 has is all right.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Tls:
    """`certificate` holds the chain, `key` its key (PEM); `InvalidRequest` where they do not."""

    def __init__(self, certificate: str, key: str, client_ca: str | None = None) -> None:
        self._files = (certificate, key, client_ca)
        self.context = self._load()

    def reload(self) -> None:
        """For connections from now on; `InvalidRequest`, and then all stays as it was."""
        self.context = self._load()

    def _load(self) -> ssl.SSLContext:
        certificate, key, client_ca = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols(PROTOCOLS)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
            if client_ca is not None:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; its words name no file
            raise InvalidRequest(f"tls: {certificate}, {key}: {error}") from None
        return context


def _no_password() -> str:
    """Nobody is there to be asked."""
    raise ValueError("the key has a passphrase, which nobody could be asked for")
