"""Where an archive lies: a folder of this machine, or a bucket of an S3-like store.

Invariant: a name appears with all of its bytes, or not at all.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.connect.connectors.libraries import library
from moldau.connect.errors import ConfigException, ConnectException, RetriableException

_EXTRA = "connect-archive"
_GONE = "The file {} is gone; it may have been merged with others"


class Store(ABC):
    @abstractmethod
    def put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def get(self, name: str) -> bytes: ...

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """Names below a folder, in order."""

    @abstractmethod
    def delete(self, name: str) -> None: ...


class LocalStore(Store):
    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, name: str) -> Path:
        found = (self._root / name).resolve()
        if self._root.resolve() not in found.parents:
            raise ConnectException(f"The name {name} leads out of the archive")
        return found

    def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.new")
        with scratch.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(path)

    def get(self, name: str) -> bytes:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            raise RetriableException(_GONE.format(name)) from None

    def names(self, prefix: str) -> list[str]:
        start = self._root / prefix
        found = (path for path in start.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)


class ObjectStore(Store):
    """A bucket, by obstore."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._obstore = library("obstore", _EXTRA)
        self._errors = library("obstore.exceptions", _EXTRA)
        secret = settings["aws.secret.access.key"]
        options: dict[str, Any] = {
            "region": settings["s3.region"],
            "endpoint": settings["store.url"],
            "access_key_id": settings["aws.access.key.id"],
            "secret_access_key": None if secret is None else secret.secret,
        }
        given = {name: value for name, value in options.items() if value}
        plain = str(settings["store.url"] or "").startswith("http:")
        self._store = library("obstore.store", _EXTRA).S3Store(
            settings["s3.bucket.name"], config=given, client_options={"allow_http": plain}
        )

    def put(self, name: str, content: bytes) -> None:
        self._asked(lambda: self._obstore.put(self._store, name, content))

    def get(self, name: str) -> bytes:
        return bytes(self._asked(lambda: self._obstore.get(self._store, name).bytes(), gone=name))

    def names(self, prefix: str) -> list[str]:
        def listed() -> list[str]:
            pages = self._obstore.list(self._store, prefix=prefix)
            return sorted(str(each["path"]) for page in pages for each in page)

        found: list[str] = self._asked(listed)
        return found

    def delete(self, name: str) -> None:
        self._asked(lambda: self._obstore.delete(self._store, name))

    def _asked(self, question: Any, gone: str | None = None) -> Any:
        errors = self._errors
        refused = (errors.NotFoundError, errors.PermissionDeniedError, errors.UnauthenticatedError)
        try:
            return question()
        except refused as error:
            if gone is not None and isinstance(error, errors.NotFoundError):
                raise RetriableException(_GONE.format(gone)) from None
            raise ConnectException(f"The object store refuses: {_first_line(error)}") from None
        except errors.BaseError as error:
            raise RetriableException(f"The object store cannot be asked: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


def store_of(settings: Mapping[str, Any]) -> Store:
    if settings["s3.bucket.name"]:
        return ObjectStore(settings)
    if settings["archive.path"]:
        return LocalStore(Path(settings["archive.path"]))
    raise ConfigException("Either archive.path or s3.bucket.name has to be set")
