"""Files under names: in a folder of this machine, or in a bucket of an S3-like store.

Invariant: a name appears with all of its bytes, or not at all. No name leads out of the folder, and no error
tells a secret.
"""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


class StoreError(Exception):
    """The store does not do what was asked; ``retriable`` where it may another time."""

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class Store(ABC):
    @abstractmethod
    def put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def get(self, name: str) -> bytes:
        """FileNotFoundError where nothing has the name."""

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
            raise StoreError(f"The name {name} leads out of the archive")
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
        return self._path(name).read_bytes()

    def names(self, prefix: str) -> list[str]:
        start = self._root / prefix
        found = (path for path in start.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)


class ObjectStore(Store):
    """A bucket, by obstore: ``options`` are those of its S3Store (region, endpoint, access_key_id …)."""

    def __init__(self, bucket: str, options: Mapping[str, Any], *, prefix: str = "") -> None:
        self._obstore = _library("obstore")
        self._errors = _library("obstore.exceptions")
        self._prefix = prefix
        given = {name: value for name, value in options.items() if value}
        plain = str(given.get("endpoint", "")).startswith("http:")
        self._store = _library("obstore.store").S3Store(
            bucket, config=given, client_options={"allow_http": plain}
        )

    def put(self, name: str, content: bytes) -> None:
        self._asked(lambda: self._obstore.put(self._store, self._prefix + name, content))

    def get(self, name: str) -> bytes:
        def read() -> bytes:
            try:
                return bytes(self._obstore.get(self._store, self._prefix + name).bytes())
            except self._errors.NotFoundError as error:
                raise FileNotFoundError(f"{name}: {_first_line(error)}") from None

        return self._asked(read)

    def names(self, prefix: str) -> list[str]:
        def listed() -> list[str]:
            pages = self._obstore.list(self._store, prefix=self._prefix + prefix)
            return sorted(str(each["path"])[len(self._prefix) :] for page in pages for each in page)

        return self._asked(listed)

    def delete(self, name: str) -> None:
        self._asked(lambda: self._obstore.delete(self._store, self._prefix + name))

    def _asked(self, question: Callable[[], _T]) -> _T:
        errors = self._errors
        refused = (errors.NotFoundError, errors.PermissionDeniedError, errors.UnauthenticatedError)
        try:
            return question()
        except refused as error:
            raise StoreError(f"The object store refuses: {_first_line(error)}") from None
        except errors.BaseError as error:
            message = f"The object store cannot be asked: {_first_line(error)}"
            raise StoreError(message, retriable=True) from None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise StoreError(
            "A bucket needs the library obstore. Next: pip install 'moldau[connect-archive]'"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
