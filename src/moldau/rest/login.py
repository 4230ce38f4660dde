"""Who asks, by the cluster's own rules: logins over HTTP are passed on to the cluster as they are.

A name and a password become a SASL login with them, a bearer token one with OAUTHBEARER. A certificate has no
secret that could be passed on: its name, by Kafka's own mapping rules, is looked up among credentials that
the proxy was given. The cluster lets the client in or not, and its ACLs decide what it may do.

Invariant: the proxy decides nothing about a login; a request with one is never done under another, and one
without is refused (401).
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moldau.client.transport.security import Security
from moldau.security.principals import PrincipalMapping, distinguished_name
from moldau.security.sasl.client import Credentials
from moldau.web.authentication import HttpLogin, Principal

REALM = "kafka-rest"


@dataclass(frozen=True, slots=True)
class Login(Principal):
    """A principal with what it logs in to the cluster with."""

    security: Security = field(default_factory=Security, repr=False)

    def authorization(self) -> str:
        """The header that means the same login at another proxy."""
        given = self.security.credentials
        if given.token:
            return f"Bearer {given.token}"
        return "Basic " + base64.b64encode(f"{given.username}:{given.password}".encode()).decode("ascii")


class Logins:
    """``own`` is the proxy's way to the cluster, of which logins take everything but the credentials.

    ``mechanism`` is the SASL mechanism of names and passwords. ``certificates`` are passwords of the users
    that certificates stand for.
    """

    def __init__(
        self,
        own: Security,
        *,
        mechanism: str = "PLAIN",
        certificates: Mapping[str, str] | None = None,
        mapping: PrincipalMapping | None = None,
    ) -> None:
        protocol = "SASL_SSL" if own.encrypted else "SASL_PLAINTEXT"
        self._base = replace(own, protocol=protocol, mechanism=mechanism, credentials=Credentials())
        self._certificates = dict(certificates or {})
        self._mapping = mapping or PrincipalMapping("DEFAULT")

    def principal_of(self, login: HttpLogin) -> Login | None:
        if login.token:
            security = replace(
                self._base, mechanism="OAUTHBEARER", credentials=Credentials(token=login.token)
            )
            return Login("bearer", False, security)
        if login.name:
            return self._named(login.name, login.password)
        if login.subject:
            name = self._mapped(login)
            if name in self._certificates:
                return self._named(name, self._certificates[name])
        return None

    def _named(self, name: str, password: str) -> Login:
        return Login(name, False, replace(self._base, credentials=Credentials(name, password)))

    def _mapped(self, login: HttpLogin) -> str:
        try:
            return self._mapping.name_of(distinguished_name(login.subject))
        except ValueError:
            return ""  # no rule fits: nobody
