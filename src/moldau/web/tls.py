"""TLS of a service: its certificate, whom it lets in, and how its instances trust each other.

Invariant: certificates and keys are PEM files, read when the service starts.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsOptions:
    certificate: Path
    #: None where the file of the certificate has the key too.
    key: Path | None = None
    #: Clients have to show a certificate that one of these authorities signed.
    client_authorities: Path | None = None

    def server_context(self) -> ssl.SSLContext:
        """How the service listens; raises ``ssl.SSLError`` or ``OSError`` for files that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        if self.client_authorities is not None:
            context.load_verify_locations(self.client_authorities)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """How one instance speaks to another: with its own certificate, which is also trusted.

        Instances of one service often share a certificate, or have it from the authority of their clients.
        """
        context = ssl.create_default_context()
        for file in (self.certificate, self.client_authorities):
            if file is not None:
                context.load_verify_locations(file)
        context.load_cert_chain(self.certificate, self.key)
        return context
