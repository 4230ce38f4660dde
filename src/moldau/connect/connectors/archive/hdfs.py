"""Files of an archive in HDFS, by its own protocol (hdfs-native), without Java on the worker's machine.

HDFS shows a file while it is written. A file is written under a hidden name, therefore, and gets its own by
one rename, which HDFS does at once or not at all.

Invariant: a name appears with all of its bytes, or not at all, and names lead nowhere but below the folder.
"""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from moldau.base.object_stores import Store, StoreError
from moldau.connect.connectors.libraries import library
from moldau.connect.errors import ConfigException

EXTRA = "connect-hdfs"
_T = TypeVar("_T")
#: What a NameNode says when asking again does not help.
_REFUSALS = ("AccessControlException", "QuotaExceededException", "InvalidPathException")
#: The library would go on for three minutes; the worker tries again by itself, and shows why.
_PATIENCE = {"dfs.client.failover.max.attempts": "3"}


def check_url(url: str) -> tuple[str, str]:
    """The NameNode and the folder of ``hdfs://host:port/folder``."""
    parts = urlsplit(url.strip())
    try:
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        port_is_good = False
    folder = unquote(parts.path).rstrip("/")
    if parts.scheme != "hdfs" or not parts.hostname or not port_is_good or parts.query or parts.fragment:
        raise ConfigException("A place in HDFS is written as hdfs://host:port/folder")
    if parts.username or parts.password:
        raise ConfigException("hdfs.url has no user")
    if ".." in PurePosixPath(folder).parts:
        raise ConfigException("The folder of hdfs.url has .. in it")
    return f"hdfs://{parts.netloc}", folder


class HdfsStore(Store):
    def __init__(self, url: str) -> None:
        name_node, self._folder = check_url(url)
        self._library: Any = library("hdfs_native", EXTRA)
        self._client: Any = _asked(lambda: self._library.Client(name_node, config=_PATIENCE))

    def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        scratch = path.with_name(f".{path.name}.new")
        options = self._library.WriteOptions(overwrite=True, create_parent=True)

        def written() -> None:
            file = self._client.create(str(scratch), options)
            try:
                if content:
                    file.write(content)
            finally:
                file.close()
            self._client.rename(str(scratch), str(path), True)

        _asked(written)

    def get(self, name: str) -> bytes:
        def read() -> bytes | None:
            try:
                return bytes(self._client.read(str(self._path(name))).readall())
            except FileNotFoundError:
                return None

        found = _asked(read)
        if found is None:
            raise FileNotFoundError(name)
        return found

    def names(self, prefix: str) -> list[str]:
        start = PurePosixPath(self._folder or "/")

        def listed() -> list[str]:
            try:
                found = list(self._client.list_status(str(start / prefix), recursive=True))
            except FileNotFoundError:
                return []
            paths = [PurePosixPath(each.path) for each in found if not each.isdir]
            return sorted(str(path.relative_to(start)) for path in paths if not path.name.startswith("."))

        return _asked(listed)

    def delete(self, name: str) -> None:
        _asked(lambda: self._client.delete(str(self._path(name)), False))

    def _path(self, name: str) -> PurePosixPath:
        if ".." in PurePosixPath(name).parts or name.startswith("/"):
            raise StoreError(f"The name {name} leads out of the archive")
        return PurePosixPath(self._folder or "/") / name


def _asked(question: Callable[[], _T]) -> _T:
    try:
        return question()
    except StoreError:
        raise
    except Exception as error:  # the library raises several kinds, without a common one
        text = re.split(r"\s*(?:\n|\\n)", str(error))[0][:300]  # without the trace of Java's stack
        refused = isinstance(error, PermissionError) or any(word in text for word in _REFUSALS)
        said = "refuses" if refused else "cannot be asked"
        raise StoreError(f"HDFS {said}: {type(error).__name__} {text}", retriable=not refused) from None
