"""Logins at ZooKeeper by SASL, with DIGEST-MD5 or Kerberos, for a client of kazoo.

kazoo's own way needs two packages that nobody keeps any more, and takes a server that went away during a
login for one that refuses it, and gives up for ever; so the conversation is ours and only its messages are
kazoo's ([why](../../../../../docs/decisions/0082-sasl-at-zookeeper.md)).

Invariant: nothing is sent for a caller before the login is complete. A server that refuses the login, or does
not prove that it is the right one, is an ``AuthFailedError``; one that went away is tried again.
"""

import secrets
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError
from kazoo.protocol.serialization import SASL

from moldau.cluster.store.zookeeper.settings import ZooKeeperLogin
from moldau.security.kerberos_tickets import kerberos_exchange
from moldau.security.sasl.client import Exchange, SaslFailed
from moldau.security.sasl.digest_md5 import DigestMd5Client

#: Every server of ZooKeeper calls itself so in DIGEST-MD5, whatever its host.
_DIGEST_HOST = "zk-sasl-md5"


def log_in_with(client: KazooClient, login: ZooKeeperLogin) -> None:
    """Lets a client that has not been started log in at each of its connections."""
    connection = client._connection
    connection.sasl_options = {}  # says to kazoo that there is a login
    connection._authenticate_with_sasl = lambda host, timeout: _converse(
        client, _exchange(login, host), timeout
    )


def _exchange(login: ZooKeeperLogin, host: str) -> Exchange:
    if login.mechanism == "GSSAPI":
        return kerberos_exchange(login.credentials, host)
    given = login.credentials
    uri = f"{given.service}/{_DIGEST_HOST}"
    return DigestMd5Client(given.username, given.password, uri, secrets.token_urlsafe(24))


def _converse(client: Any, exchange: Exchange, timeout: float) -> None:
    connection, xid = client._connection, 0
    try:
        token: bytes | None = exchange.first()
        while token is not None:
            xid += 1
            connection._submit(SASL(token), timeout, xid)
            token = exchange.answer(_answer(connection, xid, timeout))
    except SaslFailed as error:
        client.login_failed = str(error)  # kazoo tells its callers only that it failed
        raise AuthFailedError(str(error)) from error


def _answer(connection: Any, xid: int, timeout: float) -> bytes:
    header, buffer, offset = connection._read_header(timeout)
    if header.xid != xid:
        raise SaslFailed("ZooKeeper answered something else")
    if header.err:
        known = EXCEPTIONS.get(header.err)
        raise SaslFailed("the server refuses it" if known is None else f"the server says {known.__name__}")
    challenge, _ = SASL.deserialize(buffer, offset)
    return challenge or b""
