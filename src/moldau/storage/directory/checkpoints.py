"""The small text files of data directories and partition directories, in Kafka's format.

Invariant: written atomically and parsed strictly: whatever does not have the format is a
``CorruptFileError``. Whether a file can be done without is decided by the caller.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.base.names import TopicPartition, Uuid, format_uuid, parse_uuid
from moldau.protocol.checksum import crc32c
from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINT_FILES = (
    RECOVERY_POINT_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    CLEANER_OFFSET_FILE,
)
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
META_PROPERTIES_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
#: Moldau's own: the data directories of the broker, so that one that is not mounted is not taken for a new
#: one.
SIBLINGS_FILE = "moldau-directories"
#: Moldau's own: checksums of the checkpoint files, whose format has none.
CHECKSUMS_FILE = "moldau-checkpoint-sums"
LOCK_FILE = ".lock"

_VERSION = 0


def read_lines(files: Files, path: str, fields: int) -> list[list[str]]:
    """The entries of a checkpoint file, each split into its fields; none when there is no file."""
    try:
        text = files.read_whole(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CorruptFileError(path, "is not text") from None
    lines = text.splitlines()
    if not lines:
        # Kafka creates these files empty and writes them later.
        return []
    if lines[0].strip() != str(_VERSION):
        raise CorruptFileError(path, f"version {lines[0][:40]!r} is not known")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(lines) < 2 or not lines[1].strip().isdecimal() or int(lines[1]) != len(entries):
        raise CorruptFileError(path, "the number of entries on line 2 is not that of the lines that follow")
    for number, entry in enumerate(entries, 3):
        if len(entry) != fields:
            raise CorruptFileError(path, f"line {number} does not have {fields} fields")
    return entries


def _format(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines)).encode()


def _integer(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptFileError(path, f"{text[:40]!r} is not a number") from None


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Recovery points, high watermarks, log start offsets or cleaner offsets."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in read_lines(files, path, 3):
        topic_partition = TopicPartition(topic, _integer(path, partition))
        if topic_partition in offsets:
            raise CorruptFileError(path, f"{topic_partition} stands there twice")
        offsets[topic_partition] = _integer(path, offset)
        if offsets[topic_partition] < 0:
            raise CorruptFileError(path, f"negative offset for {topic_partition}")
    return offsets


def write_offsets(
    files: Files, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    files.write_atomically(path, format_offsets(offsets), sync=sync)


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _format(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_checksums(files: Files, directory: str) -> dict[str, list[int]]:
    """File name -> the checksums that its content may have, of the last write and of the one before."""
    path = f"{directory}/{CHECKSUMS_FILE}"
    checksums: dict[str, list[int]] = {}
    for name, last, before in read_lines(files, path, 3):
        checksums[name] = [_integer(path, last), _integer(path, before)]
    own = checksums.pop(CHECKSUMS_FILE, None)
    if own is not None and own[0] != crc32c("".join(_checksum_lines(checksums)).encode()):
        raise CorruptFileError(path, "its own checksum is wrong")
    return checksums


def write_checksums(files: Files, directory: str, checksums: Mapping[str, list[int]]) -> None:
    lines = _checksum_lines(checksums)
    own = f"{CHECKSUMS_FILE} {crc32c(''.join(lines).encode())} 0"
    files.write_atomically(f"{directory}/{CHECKSUMS_FILE}", _format([*lines, own]))


def _checksum_lines(checksums: Mapping[str, list[int]]) -> list[str]:
    return [f"{name} {last} {before}" for name, (last, before) in checksums.items()]


def read_leader_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset) in the order of the file."""
    return [(_integer(path, epoch), _integer(path, start)) for epoch, start in read_lines(files, path, 2)]


def format_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _format(f"{epoch} {start}" for epoch, start in entries)


def read_topic_id(files: Files, directory: str) -> Uuid | None:
    """The topic id in a partition directory; None when there is no file."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        lines = files.read_whole(path).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise CorruptFileError(path, "needs the lines 'version: 0' and 'topic_id: ...'")
    try:
        return parse_uuid(fields["topic_id"].strip())
    except ValueError as error:
        raise CorruptFileError(path, str(error)) from None


def write_topic_id(files: Files, directory: str, topic_id: Uuid, *, sync: bool = True) -> None:
    text = f"version: {_VERSION}\ntopic_id: {format_uuid(topic_id)}"
    files.write_atomically(f"{directory}/{PARTITION_METADATA_FILE}", text.encode(), sync=sync)


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """To which broker of which cluster a data directory belongs."""

    node_id: int
    cluster_id: str
    directory_id: str


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """None when the directory has never been used."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        text = files.read_whole(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "!")):
            name, _, value = line.partition("=")
            fields[name.strip()] = value.strip()
    if fields.get("version") != "1":
        raise CorruptFileError(path, f"version {fields.get('version')!r} is not known")
    for name in ("node.id", "cluster.id", "directory.id"):
        if not fields.get(name):
            raise CorruptFileError(path, f"{name} is missing")
    return MetaProperties(_integer(path, fields["node.id"]), fields["cluster.id"], fields["directory.id"])


def write_meta_properties(files: Files, directory: str, properties: MetaProperties, comment: str) -> None:
    lines = (
        "#",
        f"#{comment}",
        f"node.id={properties.node_id}",
        f"directory.id={properties.directory_id}",
        "version=1",
        f"cluster.id={properties.cluster_id}",
    )
    files.write_atomically(
        f"{directory}/{META_PROPERTIES_FILE}", "".join(f"{line}\n" for line in lines).encode()
    )


def read_clean_shutdown(files: Files, directory: str) -> bool:
    """Whether the directory was closed cleanly. The content of the marker is not needed."""
    return files.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}")


def read_clean_broker_epoch(files: Files, directory: str) -> int:
    """The broker epoch of the process that has closed the directory cleanly; -1 when it is not known."""
    try:
        epoch = json.loads(files.read_whole(f"{directory}/{CLEAN_SHUTDOWN_FILE}"))["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return -1
    return epoch if type(epoch) is int else -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_atomically(f"{directory}/{CLEAN_SHUTDOWN_FILE}", text.encode())


def read_siblings(files: Files, directory: str) -> dict[str, str]:
    """Path -> directory id of every data directory of the broker; empty when there is no file."""
    path = f"{directory}/{SIBLINGS_FILE}"
    try:
        found = json.loads(files.read_whole(path))
        if found["version"] != _VERSION:
            raise CorruptFileError(path, f"version {found['version']!r} is not known")
        return {str(where): str(directory_id) for where, directory_id in found["directories"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CorruptFileError(path, "does not hold the data directories of a node") from None


def write_siblings(files: Files, directory: str, siblings: Mapping[str, str]) -> None:
    text = json.dumps({"version": _VERSION, "directories": dict(siblings)}, indent=1)
    files.write_atomically(f"{directory}/{SIBLINGS_FILE}", f"{text}\n".encode())
