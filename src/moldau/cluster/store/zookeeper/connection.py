"""One session with ZooKeeper: kazoo's threads on one side, a blocking caller and an event loop on the other.

Invariant: calls block, so they are made on the store's own thread only. What ZooKeeper reports comes from
kazoo's threads and is passed on as it comes: whoever listens brings it to its own loop. Every failure of the
way becomes a ``MetadataStoreError`` that names the servers.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Create
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.zookeeper.sasl import log_in_with
from moldau.cluster.store.zookeeper.settings import ZooKeeperSettings
from moldau.cluster.store.zookeeper.tree import SENSITIVE

#: kazoo tells of every attempt to connect; what there is to say, the store says.
_KAZOO = logging.getLogger("moldau.zookeeper")
_KAZOO.setLevel(logging.ERROR)


#: After a refused login, first the one and then the other.
_ENDED = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)


class Connection:
    """Connects when it is first used; ``on_state`` hears CONNECTED, SUSPENDED and LOST on kazoo's thread."""

    def __init__(self, settings: ZooKeeperSettings, on_state: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_state = on_state
        self._client: KazooClient | None = None
        self._connected_once = False
        #: What ZooKeeper has granted; its own settings may make it shorter or longer than it was asked for.
        self.session_timeout_seconds = settings.session_timeout_seconds

    @property
    def client(self) -> KazooClient:
        """The client, connected; MetadataStoreError when no server can be reached."""
        if self._connected_once and self._client is not None and self._client.client_state in _ENDED:
            # kazoo tries no more after a refusal; the next call does, because a login can be mended there.
            self._end()
        client = self._client
        if client is None:
            client = self._client = self._new_client()
            self._connected_once = False
        if not self._connected_once:
            with self.explained():
                client.start(timeout=self._settings.connection_timeout_seconds)
                self._connected_once = True
                self._make_chroot(client)
        return client

    def _new_client(self) -> KazooClient:
        settings = self._settings
        client = KazooClient(
            hosts=settings.hosts,
            timeout=settings.session_timeout_seconds,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0, max_jitter=0.1),
            auth_data=None if settings.digest is None else [("digest", settings.digest)],
            use_ssl=settings.tls,
            verify_certs=settings.tls,
            check_hostname=settings.tls and settings.check_host_name,
            ca=settings.ca_file,
            certfile=settings.certificate_file,
            keyfile=settings.certificate_file,
            keyfile_password=settings.key_password,
            logger=_KAZOO,
        )
        if settings.login is not None:
            log_in_with(client, settings.login)
        client.add_listener(self._on_state)
        self._note_session_timeout(client._connection)
        return client

    def _note_session_timeout(self, connection: Any) -> None:
        """kazoo tells nobody what was granted, but waits for answers for two thirds of it."""
        connect = connection._connect

        def connect_and_note(*address: Any) -> tuple[float, float]:
            read_ms, connect_ms = connect(*address)
            self.session_timeout_seconds = read_ms * 1.5 / 1000
            return read_ms, connect_ms

        connection._connect = connect_and_note

    def _make_chroot(self, client: KazooClient) -> None:
        """Inside a chroot its own path cannot be made: the client is put there afterwards."""
        path = ""
        for name in filter(None, self._settings.chroot.split("/")):
            path += f"/{name}"
            try:
                client.create(path, None, acl=self.acl("/"))
            except NodeExistsError:
                continue
        client.chroot = self._settings.chroot

    def acl(self, path: str) -> list[Any] | None:
        """Who may do what with a znode; None: anybody anything."""
        settings = self._settings
        if not settings.set_acl:
            return None
        if settings.digest is None:
            owner = make_acl("auth", "", all=True)  # whom ZooKeeper knows by SASL or a certificate
        else:
            user, _, password = settings.digest.partition(":")
            owner = make_digest_acl(user, password, all=True)
        if any(path == root or path.startswith(f"{root}/") for root in SENSITIVE):
            return [owner]
        return [owner, make_acl("world", "anyone", read=True)]

    def add_create(self, transaction: Any, path: str, data: bytes | None) -> None:
        """Adds a creation to a transaction; kazoo's own way there does not know znodes without data."""
        chroot_path = f"{self._settings.chroot}{path}"
        transaction._add(Create(chroot_path, data, self.acl(path) or OPEN_ACL_UNSAFE, 0), None)

    @property
    def session_id(self) -> int:
        client_id = self.client.client_id
        return 0 if client_id is None else int(client_id[0])

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except MetadataStoreError:
            raise
        except NoAuthError as error:
            raise MetadataStoreError(
                f"ZooKeeper at {self._settings.hosts} refuses this broker: another login has made the znodes"
                ". Check moldau.zookeeper.sasl.jaas.config (or the section Client) and "
                "moldau.zookeeper.digest."
            ) from error
        except AuthFailedError as error:
            raise MetadataStoreError(
                f"ZooKeeper at {self._settings.hosts} and this broker do not accept each other"
                f"{self._reason()}. Check moldau.zookeeper.sasl.jaas.config, or the section Client of the "
                "JAAS file, and that of the server."
            ) from error
        except (KazooException, KazooTimeoutError, OSError) as error:
            what = str(error) or type(error).__name__
            raise MetadataStoreError(
                f"ZooKeeper at {self._settings.hosts} does not answer ({what}): check that it runs and that "
                "zookeeper.connect names it."
            ) from error

    def _reason(self) -> str:
        """What the last login ended with; kazoo keeps it to itself."""
        failed = None if self._client is None else getattr(self._client, "login_failed", None)
        return "" if failed is None else f": {failed}"

    def close(self) -> None:
        """Ends the session, and with it every ephemeral znode of this broker."""
        self._end()

    def _end(self) -> None:
        if self._client is not None:
            self._client.remove_listener(self._on_state)
            self._client.stop()
            self._client.close()
            self._client = None


CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST
