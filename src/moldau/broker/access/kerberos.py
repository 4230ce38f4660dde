"""GSSAPI of a listener: the broker's key table from its JAAS line, and Kerberos by the package ``gssapi``.

Invariant: a listener that has no usable key table does not open. Nothing of Kerberos is asked of the network:
the key that a ticket is checked with is in a file of this machine.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.security.jaas import parse_jaas
from moldau.security.kerberos_names import KerberosRules, parse_name
from moldau.security.sasl.kerberos import Gssapi


def gssapi_logins(settings: ListenerSettings) -> Callable[[], Gssapi]:
    """Begins conversations; ValueError, with what to do, where there is no key table."""
    name = f"{settings.prefix}gssapi.sasl.jaas.config"
    form = (
        f"set {name} to com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        'keyTab="/path/kafka.keytab" principal="kafka/host@REALM";'
    )
    text = settings.jaas("GSSAPI")
    if text is None:
        raise ValueError(f"GSSAPI has no key table: {form}")
    options = parse_jaas(text).options
    key_table, principal = options.get("keyTab"), options.get("principal")
    if not key_table or not principal:
        raise ValueError(f"GSSAPI needs keyTab and principal: {form}")
    if not Path(key_table).is_file():
        raise ValueError(f"GSSAPI: there is no key table {key_table}")
    rules = KerberosRules(settings["sasl.kerberos.principal.to.local.rules"], parse_name(principal).realm)
    try:
        gssapi: Any = import_module("gssapi")  # it is an extra, so its types may not be there
    except ImportError:
        raise ValueError("GSSAPI needs the package gssapi: pip install 'moldau[kerberos]'") from None
    try:
        server = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(name=server, usage="accept", store={"keytab": key_table})
    except gssapi.exceptions.GSSError as error:
        raise ValueError(f"GSSAPI cannot use {key_table} for {principal}: {error}") from None
    return lambda: Gssapi(_Context(gssapi, credentials), rules.user)


class _Context:
    def __init__(self, library: Any, credentials: Any) -> None:
        self._errors = library.exceptions.GSSError
        self._context = library.SecurityContext(creds=credentials, usage="accept")

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        if not token:
            raise ValueError("an empty token")
        return self._asked(lambda: self._context.step(token) or b"")

    def wrap(self, message: bytes) -> bytes:
        return self._asked(lambda: self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return self._asked(lambda: self._context.unwrap(message).message)

    def _asked(self, question: Callable[[], Any]) -> bytes:
        try:
            return bytes(question())
        except self._errors as error:
            raise ValueError(str(error)) from None
