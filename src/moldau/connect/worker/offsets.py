"""Places of sources: how far each partition of each source was read.

Keys and values are those of Kafka's topic of offsets: ``["name",{"filename":"a.txt"}]`` and
``{"position":14}``.

Invariant: a place is kept only after the records before it are in their topic.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from moldau.connect.connector import Place
from moldau.connect.errors import ConnectException


def offset_key(connector: str, partition: Place) -> str:
    return json.dumps([connector, partition], separators=(",", ":"), ensure_ascii=False)


def offset_value(offset: Place) -> str:
    return json.dumps(offset, separators=(",", ":"), ensure_ascii=False)


class OffsetStore(Protocol):
    def get(self, connector: str, partition: Place) -> Place | None: ...

    def kept(self, connector: str, partition: Place) -> Place | None:
        """The place that a worker which starts now would find."""
        ...

    def of(self, connector: str) -> list[tuple[Place, Place]]: ...

    def put(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None: ...

    def forget(self, connector: str) -> None: ...

    async def flush(self) -> None: ...

    async def catch_up(self, *, past_open: bool = False) -> None:
        """Returns when what other workers wrote is known here; see ``CompactedTopic``."""
        ...

    def learn(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        """Takes over places that a transaction has written."""
        ...


class NoOffsets:
    """For a process that keeps no places: whoever gave it its work does."""

    def get(self, connector: str, partition: Place) -> Place | None:
        return None

    def kept(self, connector: str, partition: Place) -> Place | None:
        return None

    def of(self, connector: str) -> list[tuple[Place, Place]]:
        return []

    def put(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        """Nowhere."""

    def forget(self, connector: str) -> None:
        """There is nothing to forget."""

    async def flush(self) -> None:
        """There is nothing to write."""

    async def catch_up(self, *, past_open: bool = False) -> None:
        """There are no others."""

    def learn(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        """Nowhere."""


class FileOffsets:
    """Places in one file of JSON; written whole, and put in the place of the old one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        self._known: dict[str, str] = _read(path)
        self._written: dict[str, str] = dict(self._known)

    def get(self, connector: str, partition: Place) -> Place | None:
        found = self._known.get(offset_key(connector, partition))
        return None if found is None else _place(found)

    def kept(self, connector: str, partition: Place) -> Place | None:
        found = self._written.get(offset_key(connector, partition))
        return None if found is None else _place(found)

    def of(self, connector: str) -> list[tuple[Place, Place]]:
        found: list[tuple[Place, Place]] = []
        for key, value in self._known.items():
            name, partition = json.loads(key)
            if name == connector:
                found.append((partition, _place(value)))
        return found

    def put(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        for partition, offset in offsets:
            key = offset_key(connector, partition)
            if offset is None:
                self._changed |= self._known.pop(key, None) is not None
            else:
                value = offset_value(offset)
                self._changed |= self._known.get(key) != value
                self._known[key] = value

    def forget(self, connector: str) -> None:
        self.put(connector, [(partition, None) for partition, _ in self.of(connector)])

    async def catch_up(self, *, past_open: bool = False) -> None:
        """There are no others."""

    def learn(self, connector: str, offsets: Iterable[tuple[Place, Place | None]]) -> None:
        """A file has no part in transactions."""
        self.put(connector, offsets)

    async def flush(self) -> None:
        if not self._changed:
            return
        self._changed = False
        known = dict(self._known)
        scratch = self._path.with_name(f"{self._path.name}.new")
        with scratch.open("w", encoding="utf-8") as out:
            json.dump(known, out, ensure_ascii=False, indent=0)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(self._path)
        self._written = known


def _place(text: str) -> Place:
    found: Any = json.loads(text)
    assert isinstance(found, dict)
    return found


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, UnicodeDecodeError) as error:
        raise ConnectException(
            f"{path} is no file of offsets of this worker; Apache's have another format. Next: move it away, "
            "or name another offset.storage.file.filename"
        ) from error
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
