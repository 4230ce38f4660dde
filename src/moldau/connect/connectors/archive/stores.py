"""Where an archive lies, by the settings of a connector: a folder of this machine, an S3-like bucket, HDFS.

Invariant: what a store says goes on as an error that Connect's workers understand.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from moldau.base.object_stores import LocalStore, ObjectStore, Store, StoreError
from moldau.connect.connectors.archive.hdfs import HdfsStore
from moldau.connect.errors import ConfigException, ConnectException, RetriableException

_T = TypeVar("_T")


class ConnectStore(Store):
    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, name: str, content: bytes) -> None:
        _asked(lambda: self._store.put(name, content))

    def get(self, name: str) -> bytes:
        try:
            return _asked(lambda: self._store.get(name))
        except FileNotFoundError:
            gone = f"The file {name} is gone; it may have been merged with others"
            raise RetriableException(gone) from None

    def names(self, prefix: str) -> list[str]:
        return _asked(lambda: self._store.names(prefix))

    def delete(self, name: str) -> None:
        _asked(lambda: self._store.delete(name))


def _asked(question: Callable[[], _T]) -> _T:
    try:
        return question()
    except StoreError as error:
        kind = RetriableException if error.retriable else ConnectException
        raise kind(str(error)) from None


def store_of(settings: Mapping[str, Any]) -> Store:
    if settings["s3.bucket.name"]:
        secret = settings["aws.secret.access.key"]
        options = {
            "region": settings["s3.region"],
            "endpoint": settings["store.url"],
            "access_key_id": settings["aws.access.key.id"],
            "secret_access_key": None if secret is None else secret.secret,
        }
        return ConnectStore(_asked(lambda: ObjectStore(settings["s3.bucket.name"], options)))
    if settings.get("hdfs.url"):
        return ConnectStore(_asked(lambda: HdfsStore(settings["hdfs.url"])))
    if settings["archive.path"]:
        return ConnectStore(LocalStore(Path(settings["archive.path"])))
    raise ConfigException("One of archive.path, s3.bucket.name and hdfs.url has to be set")
