"""Names of the files of an archive: ``topics/orders/partition=0/orders+0+0000000000+0000000099.parquet``.

The two numbers are the first and the last offset in the file. A flush, which may have several files, counts
when its mark ``topics/_complete/orders/0/FIRST+LAST`` is there.

Invariant: pure; no name of a topic or value of a field can lead out of its folder.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_NAME = re.compile(r"(?P<topic>[^/]+)\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+)\.(?P<format>\w+)")


@dataclass(frozen=True, slots=True, order=True)
class FileName:
    topic: str
    partition: int
    first: int
    last: int
    format: str
    #: The folder within the topic, such as ``partition=0`` or ``year=2024/month=01``.
    folder: str = ""

    def path(self, base: str) -> str:
        name = f"{self.topic}+{self.partition}+{self.first:010d}+{self.last:010d}.{self.format}"
        return f"{base}/{self.topic}/{self.folder}/{name}"

    @classmethod
    def parse(cls, path: str, base: str) -> "FileName | None":
        inner = path.removeprefix(f"{base}/")
        folder, _, name = inner.rpartition("/")
        found = _NAME.fullmatch(name)
        if found is None or path == inner:
            return None
        topic, _, below = folder.partition("/")
        if topic != found["topic"]:
            return None
        partition, first, last = (int(found[part]) for part in ("partition", "first", "last"))
        return cls(topic, partition, first, last, found["format"], below)


@dataclass(frozen=True, slots=True, order=True)
class Flush:
    """Offsets from ``first`` to ``last`` of a partition are complete."""

    topic: str
    partition: int
    first: int
    last: int

    def path(self, base: str) -> str:
        return f"{marks(base, self.topic, self.partition)}{self.first:010d}+{self.last:010d}"

    @classmethod
    def parse(cls, path: str, base: str) -> "Flush | None":
        parts = path.removeprefix(f"{base}/_complete/").split("/")
        found = re.fullmatch(r"(\d+)\+(\d+)", parts[-1])
        if len(parts) != 3 or found is None or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), int(found[1]), int(found[2]))


def marks(base: str, topic: str, partition: int) -> str:
    return f"{base}/_complete/{topic}/{partition}/"


def folder_of(field: str, value: object) -> str:
    """``country=CH``; what a path cannot have is written as %XX."""
    text = quote(str(value), safe=" +@:,äöüÄÖÜ") if value is not None else "__null__"
    return f"{quote(field, safe='')}={text if text.strip('.') else text.replace('.', '%2E')}"


def value_of(folder: str) -> str:
    return unquote(folder.partition("=")[2])
