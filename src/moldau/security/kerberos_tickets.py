"""The client's side of Kerberos by the package ``gssapi``: tickets from a key table, or those that there are.

Invariant: the server proves who it is. Whatever asks a KDC blocks: none of this is called on the event loop.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from moldau.security.sasl.client import Credentials, SaslFailed
from moldau.security.sasl.kerberos import GssapiClient


def kerberos_exchange(credentials: Credentials, host: str) -> GssapiClient:
    """The exchange of one connection with the server at a host."""
    try:
        library: Any = import_module("gssapi")  # it is an extra, so its types may not be there
    except ImportError:
        raise SaslFailed("it needs the package gssapi: pip install 'moldau[kerberos]'") from None
    return GssapiClient(_Context(library, credentials, host))


class _Context:
    def __init__(self, library: Any, credentials: Credentials, host: str) -> None:
        self._library = library
        self._credentials = credentials
        self._host = host
        self._context: Any = None

    @property
    def complete(self) -> bool:
        return self._context is not None and bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        return self._asked(lambda: self._begun().step(token) or b"")

    def _begun(self) -> Any:
        if self._context is None:
            library, given = self._library, self._credentials
            service = library.Name(f"{given.service}@{self._host}", library.NameType.hostbased_service)
            own = None
            if given.username:
                name = library.Name(given.username, library.NameType.kerberos_principal)
                store = None
                if given.key_table:
                    # Tickets from a key are this process's own: others' tickets stay as they are.
                    cache = f"MEMORY:moldau-{given.username}-{given.key_table}".replace("/", "_")
                    store = {"client_keytab": given.key_table, "ccache": cache}
                own = library.Credentials(name=name, usage="initiate", store=store)
            flags = library.RequirementFlag
            self._context = library.SecurityContext(
                name=service,
                creds=own,
                usage="initiate",
                mech=library.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity,
            )
        return self._context

    def wrap(self, message: bytes) -> bytes:
        return self._asked(lambda: self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return self._asked(lambda: self._context.unwrap(message).message)

    def _asked(self, question: Callable[[], Any]) -> bytes:
        try:
            return bytes(question())
        except self._library.exceptions.GSSError as error:
            raise ValueError(str(error)) from None
