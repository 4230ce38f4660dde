"""``moldau doctor --data-dir``: what can be wrong with a data directory.

Invariant: changes nothing and takes no lock. The directory may be in use by a broker: what is just being
written is then not reported as damage. Only a few headers of each log are read, not its data.
"""

import os
import re
import shutil
import struct
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from moldau.base.names import TopicPartition
from moldau.base.settings import parse_properties
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MIN_BATCH_LENGTH, read_header
from moldau.reports.findings import Finding, Severity, ok
from moldau.storage.directory.log_directory import LogDirectory
from moldau.storage.errors import ACCEPT_LOST_FILES
from moldau.storage.files import OsFiles
from moldau.storage.log.lost_segments import orphaned_indexes

if TYPE_CHECKING:
    from moldau.cluster.image import ClusterImage

_PARTITION = re.compile(r"(.+)-(\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
_OFFSET_ENTRY = struct.Struct(">ii")
_INDEX_ENTRY_BYTES = {".index": 8, ".timeindex": 12}
_RESTORE = "restore it from a backup, or move it away and start with an empty directory"
#: The checksum, magic, attributes and lengths of a message of magic 0.
_MIN_LEGACY_LENGTH = 14
#: How many findings about partitions are shown.
_MAX_PARTITION_FINDINGS = 20


def examine_directory(directory: Path) -> Iterator[Finding]:
    """The findings about one data directory."""
    subject = str(directory)
    if not directory.exists():
        yield Finding(Severity.NOTE, subject, "does not exist yet", "a broker makes it when it starts")
        return
    if not directory.is_dir() or not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            Severity.PROBLEM,
            subject,
            "is no directory that this user may read and write",
            "chown or chmod it",
        )
        return
    holder = lock_holder(directory / ".lock")
    yield from _check_identity(directory)
    yield _check_state(directory, holder)
    if holder is None:
        yield from _check_metadata(directory, _metadata_of(directory))
    yield from _check_partitions(directory, in_use=holder is not None)


def lock_holder(path: Path) -> int | None:
    """The process that has locked the file, None without one. Asks the system, and does not lock."""
    if sys.platform == "win32" or not path.exists():
        return None
    import fcntl

    # struct flock: type, whence, start, length, pid on Linux; start, length, pid, type, whence on macOS.
    if sys.platform.startswith("linux"):
        layout, fields, kind, pid = struct.Struct("hhqqi4x"), (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0), 0, 4
    else:
        layout, fields, kind, pid = struct.Struct("qqihh4x"), (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET), 3, 2
    with path.open("rb") as file:
        answer = layout.unpack(fcntl.fcntl(file, fcntl.F_GETLK, layout.pack(*fields)))
    return None if answer[kind] == fcntl.F_UNLCK else answer[pid]


def _check_identity(directory: Path) -> Iterator[Finding]:
    path = directory / "meta.properties"
    if not path.exists():
        empty = not any(directory.iterdir())
        if empty:
            yield Finding(Severity.NOTE, "meta.properties", "missing: the directory is empty")
        else:
            step = "check that this is a data directory; a broker would take it as a new one"
            yield Finding(
                Severity.WARNING, "meta.properties", "missing, but the directory is not empty", step
            )
        return
    try:
        found = parse_properties(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        yield Finding(Severity.PROBLEM, "meta.properties", f"cannot be read: {error}", _RESTORE)
        return
    missing = [name for name in ("version", "node.id", "cluster.id") if not found.get(name)]
    if missing:
        yield Finding(Severity.PROBLEM, "meta.properties", f"lacks {', '.join(missing)}", _RESTORE)
        return
    yield ok("meta.properties", f"node {found['node.id']} of cluster {found['cluster.id']}")


def _check_state(directory: Path, holder: int | None) -> Finding:
    if holder is not None:
        return Finding(Severity.NOTE, "lock", f"held by process {holder}: a broker is using the directory")
    if (directory / ".kafka_cleanshutdown").exists():
        return ok("last stop", "clean")
    if any(_partition_directories(directory)):
        return Finding(
            Severity.WARNING,
            "last stop",
            "not clean: the broker was killed or the machine went down",
            "nothing to do: the next start checks the ends of the logs and cuts what is torn; "
            f"'moldau log verify {directory}' checks all of them",
        )
    return ok("last stop", "nothing was left open")


def _metadata_of(directory: Path) -> Path:
    """The metadata of a broker with several data directories is in the first of them."""
    siblings = LogDirectory(OsFiles(), str(directory)).siblings()
    return Path(next(iter(siblings), directory)) / "metadata.sqlite"


def _check_metadata(directory: Path, path: Path) -> Iterator[Finding]:
    """Topics and configs. A copy is opened, because opening the database may write to it."""
    from moldau.cluster.image import EMPTY_IMAGE
    from moldau.cluster.store.contract import MetadataStoreError
    from moldau.cluster.store.sqlite_log import SqliteLog

    partitions = sum(1 for _ in _partition_directories(directory))
    if not path.exists() and not partitions:
        yield Finding(Severity.NOTE, path.name, "missing: no broker of ours has used the directory")
    if not path.exists():
        if partitions:
            yield _metadata_is_gone(path, partitions)
        return
    with TemporaryDirectory(prefix="moldau-doctor-") as copy:
        for suffix in ("", "-wal"):
            if path.with_name(path.name + suffix).exists():
                shutil.copy(path.with_name(path.name + suffix), Path(copy, path.name + suffix))
        try:
            log = SqliteLog(Path(copy))
            try:
                image = EMPTY_IMAGE.apply_all(log.load(0).records)
            finally:
                log.close()
        except MetadataStoreError as error:
            yield Finding(Severity.PROBLEM, path.name, str(error).replace(copy, str(path.parent)), _RESTORE)
            return
    if image.cluster_id is None and partitions:
        yield _metadata_is_gone(path, partitions)
        return
    yield ok(path.name, f"readable, {len(image.topics_by_name)} topic(s)")
    yield from _check_lost_partitions(directory, image)


def _metadata_is_gone(path: Path, partitions: int) -> Finding:
    return Finding(
        Severity.PROBLEM,
        path.name,
        f"the metadata is gone, and there are {partitions} partition(s): no broker of ours starts here",
        f"put {path} back; 'moldau log import' takes over a directory of Apache Kafka; "
        f"{ACCEPT_LOST_FILES}=true begins without topics",
    )


def _check_lost_partitions(directory: Path, image: "ClusterImage") -> Iterator[Finding]:
    """Partitions of existing topics that the checkpoints know and that have no directory."""
    known = LogDirectory(OsFiles(), str(directory))
    known.load_checkpoints()
    for topic in image.topics_by_name.values():
        for partition in range(len(topic.partitions)):
            topic_partition = TopicPartition(topic.name, partition)
            end_offset = known.checkpointed_end(topic_partition)
            if end_offset and not (directory / str(topic_partition)).exists():
                yield Finding(
                    Severity.PROBLEM,
                    str(topic_partition),
                    f"its directory is gone, and with it the records below offset {end_offset}",
                    f"put it back, delete the topic, or start once with {ACCEPT_LOST_FILES}=true to let it "
                    "begin empty; until then it is offline",
                )


def _partition_directories(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.is_dir() and _PARTITION.fullmatch(path.name) and not path.name.endswith("-delete"):
            yield path


def _check_partitions(directory: Path, *, in_use: bool) -> Iterator[Finding]:
    partitions = findings = 0
    for path in _partition_directories(directory):
        partitions += 1
        for finding in _check_partition(path, in_use=in_use):
            findings += 1
            if findings <= _MAX_PARTITION_FINDINGS:
                yield finding
    if findings > _MAX_PARTITION_FINDINGS:
        yield Finding(
            Severity.NOTE, "partitions", f"{findings - _MAX_PARTITION_FINDINGS} more findings are left out"
        )
    if not findings:
        yield ok("partitions", f"{partitions} looked at")


def _check_partition(path: Path, *, in_use: bool) -> Iterator[Finding]:
    names = {entry.name for entry in path.iterdir()}
    bases = sorted(name[:20] for name in names if _SEGMENT.fullmatch(name))
    if not bases:
        step = "look at what is in it; a broker leaves a directory without a log alone"
        yield Finding(Severity.WARNING, path.name, "has no log", step)
        return
    if "partition.metadata" not in names:
        yield Finding(Severity.WARNING, path.name, "partition.metadata is missing", "a broker writes it anew")
    for name in sorted(names):
        if name.endswith((".cleaned", ".swap")) and not in_use:
            yield Finding(
                Severity.NOTE, path.name, f"{name} is left over of a compaction", "a start tidies up"
            )
    if not in_use:
        yield from _check_order(path, names, bases)
    for base in bases:
        last = base == bases[-1]
        # Those of the newest segment are not there before they have an entry.
        unfinished = last and (in_use or not (path / f"{base}.log").stat().st_size)
        yield from _check_indexes(path, base, names, last=last, unfinished=unfinished)
        if not (in_use and last):
            damage = log_damage(path / f"{base}.log", _last_indexed_position(path / f"{base}.index"))
            if damage is not None:
                yield _damaged(path, base, damage, last=last)


def _check_order(path: Path, names: set[str], bases: list[str]) -> Iterator[Finding]:
    """Segments that are gone from the middle, and files that have the name of another segment."""
    steps = f"'moldau log verify {path}' tells what is lost"
    for name in sorted(orphaned_indexes(names)):
        if bases[0] < name[:20] < bases[-1]:
            yield Finding(
                Severity.PROBLEM,
                f"{path.name}/{name[:20]}.log",
                f"is gone, though {name} tells of it",
                f"put it back, or start once with {ACCEPT_LOST_FILES}=true to serve the rest; {steps}",
            )
    for base, following in pairwise(bases):
        first, end = _first_and_end(path / f"{base}.log", _last_indexed_position(path / f"{base}.index"))
        subject = f"{path.name}/{base}.log"
        if first is not None and not int(base) <= first < int(following):
            text = f"begins with offset {first}, which belongs into another segment: were files exchanged?"
            yield Finding(Severity.PROBLEM, subject, text, f"give the files their names back; {steps}")
        elif end is not None and end < int(following):
            text = f"ends with offset {end - 1}, and the next segment begins at {int(following)}"
            yield Finding(Severity.WARNING, subject, text, f"that is so after compaction; else {steps}")


def _first_and_end(path: Path, position: int) -> tuple[int | None, int | None]:
    """The first offset of a log file and the one after its last, as far as its headers tell."""
    first = end = None
    with path.open("rb") as file:
        head = os.pread(file.fileno(), HEADER_SIZE, 0)
        if len(head) == HEADER_SIZE:
            first = read_header(head).base_offset
        while len(head := os.pread(file.fileno(), HEADER_SIZE, position)) == HEADER_SIZE:
            header = read_header(head)
            if header.magic != MAGIC or header.batch_length < MIN_BATCH_LENGTH:
                return first, None
            end = header.last_offset + 1
            position += header.size
    return first, end


def _damaged(path: Path, base: str, damage: str, *, last: bool) -> Finding:
    subject = f"{path.name}/{base}.log"
    if last:
        return Finding(Severity.WARNING, subject, damage, "nothing to do: the next start cuts what is torn")
    return Finding(
        Severity.PROBLEM,
        subject,
        damage,
        f"'moldau log verify {path}' tells what is lost, "
        f"'moldau log repair {path} --dry-run' what can be kept",
    )


def _check_indexes(
    path: Path, base: str, names: set[str], *, last: bool, unfinished: bool
) -> Iterator[Finding]:
    for suffix, entry_bytes in _INDEX_ENTRY_BYTES.items():
        name = base + suffix
        if name not in names:
            if not unfinished:
                step = "a start builds it anew from the log"
                yield Finding(Severity.WARNING, f"{path.name}/{name}", "is missing", step)
        elif (path / name).stat().st_size % entry_bytes and not last:
            yield Finding(
                Severity.WARNING,
                f"{path.name}/{name}",
                f"its size is no multiple of {entry_bytes}: it was cut",
                f"'moldau log repair {path}' builds it anew from the log",
            )


def _last_indexed_position(path: Path) -> int:
    """The position in the last entry of an offset index; 0 where there is none."""
    try:
        data = path.read_bytes()
    except OSError:
        return 0
    for at in range(len(data) // 8 * 8 - 8, -1, -8):
        offset, position = _OFFSET_ENTRY.unpack_from(data, at)
        if offset or position:  # the file of an active index is preallocated with zeros
            return max(int(position), 0)
    return 0


def log_damage(path: Path, position: int) -> str | None:
    """What is wrong with the batches from a position on, judged by their headers; None for nothing."""
    size = path.stat().st_size
    if position > size:
        return f"ends at {size}, but its index points to {position}: the file was cut"
    with path.open("rb") as file:
        while position < size:
            head = os.pread(file.fileno(), HEADER_SIZE, position)
            if len(head) == HEADER_SIZE and not any(head):
                return f"holds zeros from {position} on"
            try:
                header = read_header(head)
            except KafkaError:
                return f"ends inside the header of a batch at {position}"
            least = MIN_BATCH_LENGTH if header.magic == MAGIC else _MIN_LEGACY_LENGTH
            if header.magic not in (0, 1, MAGIC) or header.batch_length < least:
                return f"holds no batch at {position}"
            if position + LOG_OVERHEAD + header.batch_length > size:
                return f"ends inside the batch at {position} (offset {header.base_offset})"
            position += LOG_OVERHEAD + header.batch_length
    return None
