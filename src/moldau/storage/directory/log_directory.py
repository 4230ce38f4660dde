"""One entry of ``log.dirs``: its identity, how it was left, and the checkpoint files at its root.

Invariant: a directory that has failed stays offline until the broker is restarted. The clean-shutdown
marker is removed from the disk before anything is written, so that a crash never looks like a clean
shutdown.
"""

import logging
import re
import threading
from collections.abc import Mapping

from moldau.base.names import MAX_TOPIC_NAME_LENGTH, TopicPartition, format_uuid, topic_name_error
from moldau.protocol.checksum import crc32c
from moldau.storage.directory import checkpoints
from moldau.storage.directory.checkpoints import MetaProperties
from moldau.storage.errors import CorruptFileError, IdentityError
from moldau.storage.files import Files, Lock

logger = logging.getLogger("moldau.storage")

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
#: A copy that is to take the place of the partition's log in another directory.
FUTURE_SUFFIX = "-future"
_MAX_NAME_LENGTH = 255
_PARTITION_DIRECTORY = re.compile(rf"(.{{1,{MAX_TOPIC_NAME_LENGTH}}})-(\d{{1,10}})")
#: The log of a KRaft controller looks like a partition, but is not served.
_NOT_SERVED = frozenset({"__cluster_metadata-0"})


class LogDirectory:
    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.directory_id = ""
        #: Why it is offline; None while it is in use.
        self.offline: str | None = None
        self.clean = False
        #: The broker epoch of the process that has closed it cleanly, or -1.
        self.clean_broker_epoch = -1
        self.recovery_points: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self._files = files
        self._lock: Lock | None = None
        # By checkpoint file: the partitions in it, and the number of the job that wrote it last.
        self._checkpointed: dict[str, frozenset[TopicPartition]] = {}
        self._last_writer: dict[str, int] = {}
        # By checkpoint file: the checksums in the file of checksums, and the checksum of the file itself.
        self._checksums: dict[str, list[int]] = {}
        self._checksums_on_disk: dict[str, int] = {}
        self._checkpoint_number = 0
        self._checkpoint_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    def lock(self) -> MetaProperties | None:
        """Locks the directory; returns its identity if it was used before."""
        self._files.make_directory(self.path)
        self._lock = self._files.lock(f"{self.path}/{checkpoints.LOCK_FILE}")
        return checkpoints.read_meta_properties(self._files, self.path)

    def identify(self, found: MetaProperties | None, node_id: int, cluster_id: str, comment: str) -> None:
        """Checks that the directory belongs to this broker of this cluster; a new one is given to it."""
        if found is None:
            self.directory_id = new_id(self._files)
            properties = MetaProperties(node_id, cluster_id, self.directory_id)
            checkpoints.write_meta_properties(self._files, self.path, properties, comment)
            return
        where = f"{self.path}/{checkpoints.META_PROPERTIES_FILE}"
        if found.cluster_id != cluster_id:
            raise IdentityError(
                f"{where} says cluster.id={found.cluster_id}, but this node belongs to cluster {cluster_id}"
            )
        if found.node_id != node_id:
            raise IdentityError(f"{where} says node.id={found.node_id}, but this node has the id {node_id}")
        self.directory_id = found.directory_id

    def siblings(self) -> dict[str, str]:
        """The data directories of the broker when this one was last used, path -> id."""
        try:
            return checkpoints.read_siblings(self._files, self.path)
        except CorruptFileError as error:
            logger.warning("ignoring a list of data directories: %s", error)
            return {}

    def update_siblings(self, siblings: Mapping[str, str]) -> None:
        if self.siblings() != siblings:
            checkpoints.write_siblings(self._files, self.path, siblings)

    def read_checkpoints(self) -> None:
        """Reads how the directory was left; from here on it counts as not closed cleanly."""
        self.clean = checkpoints.read_clean_shutdown(self._files, self.path)
        if self.clean:
            self.clean_broker_epoch = checkpoints.read_clean_broker_epoch(self._files, self.path)
            self._files.remove(f"{self.path}/{checkpoints.CLEAN_SHUTDOWN_FILE}")
            self._files.flush_directory(self.path)
        self.load_checkpoints()

    def load_checkpoints(self) -> None:
        """Reads the offsets of all partitions, and changes nothing."""
        try:
            self._checksums = checkpoints.read_checksums(self._files, self.path)
        except CorruptFileError as error:
            logger.warning("checkpoints are not compared with their checksums: %s", error)
        self.recovery_points = self._offsets(checkpoints.RECOVERY_POINT_FILE)
        self.high_watermarks = self._offsets(checkpoints.HIGH_WATERMARK_FILE)
        self.log_start_offsets = self._offsets(checkpoints.LOG_START_OFFSET_FILE)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.path}/{name}"
        try:
            if name in self._checksums:
                self._checksums_on_disk[name] = crc32c(self._files.read_whole(path))
                if self._checksums_on_disk[name] not in self._checksums[name]:
                    raise CorruptFileError(path, "the checksum does not match")
            found = checkpoints.read_offsets(self._files, path)
            self._checkpointed[name] = frozenset(found)
            return found
        except (CorruptFileError, FileNotFoundError) as error:
            # Without recovery points more is checked than necessary; without the others nothing is lost.
            logger.warning("ignoring a checkpoint: %s", error)
            return {}

    def checkpointed_end(self, topic_partition: TopicPartition) -> int:
        """The largest offset that the checkpoints of the last stop know of a partition; 0 for none."""
        known = (self.recovery_points, self.high_watermarks, self.log_start_offsets)
        return max(offsets.get(topic_partition, 0) for offsets in known)

    def forget(self, topic_partition: TopicPartition) -> None:
        """What the checkpoints say of a partition is no longer true."""
        for offsets in (self.recovery_points, self.high_watermarks, self.log_start_offsets):
            offsets.pop(topic_partition, None)

    def next_checkpoint(self) -> int:
        """A number for a checkpoint that is about to be written, larger than all before it."""
        self._checkpoint_number += 1
        return self._checkpoint_number

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int], number: int) -> None:
        """May be called in any thread; an older checkpoint never replaces a newer one."""
        with self._checkpoint_lock:
            if number < self._last_writer.get(name, 0):
                return
            content = checkpoints.format_offsets(offsets)
            # The checksums are written first, with the old one: either file that a crash leaves is valid.
            self._checksums[name] = [crc32c(content), self._checksums_on_disk.get(name, 0)]
            checkpoints.write_checksums(self._files, self.path, self._checksums)
            self._files.write_atomically(f"{self.path}/{name}", content)
            self._checksums_on_disk[name] = self._checksums[name][0]
            self._last_writer[name] = number
            self._checkpointed[name] = frozenset(offsets)

    def has_checkpointed(self, topic_partition: TopicPartition) -> bool:
        """Whether the recovery points or log start offsets on disk have an entry for this partition."""
        names = (checkpoints.RECOVERY_POINT_FILE, checkpoints.LOG_START_OFFSET_FILE)
        return any(topic_partition in self._checkpointed.get(name, ()) for name in names)

    def partitions(self) -> list[tuple[TopicPartition, str]]:
        """The partition directories; everything else is ignored."""
        found = []
        for name in self._files.list_directory(self.path):
            path = f"{self.path}/{name}"
            topic_partition = parse_directory_name(name)
            if topic_partition is None or not self._files.is_directory(path):
                continue
            names = self._files.list_directory(path)
            if checkpoints.PARTITION_METADATA_FILE in names or any(n.endswith(".log") for n in names):
                found.append((topic_partition, path))
            else:
                logger.warning("%s holds no log and is left alone", path)
        return found

    def leftovers(self) -> list[str]:
        """Directories of deleted partitions that are to be removed."""
        names = self._files.list_directory(self.path)
        return [f"{self.path}/{name}" for name in names if _is_deleted(name)]

    def futures(self) -> list[tuple[TopicPartition, str]]:
        """Copies that were being made when the broker stopped."""
        found = []
        for name in self._files.list_directory(self.path):
            stem = _renamed_stem(name, FUTURE_SUFFIX)
            topic_partition = None if stem is None else parse_directory_name(stem)
            if topic_partition is not None:
                found.append((topic_partition, f"{self.path}/{name}"))
        return found

    def volume_bytes(self) -> tuple[int, int]:
        """The total and the usable bytes of the volume."""
        return self._files.total_bytes(self.path), self._files.free_bytes(self.path)

    def mark_offline(self, reason: str) -> bool:
        """Takes the directory out of use; False when it was offline already."""
        if self.offline is not None:
            return False
        self.offline = reason
        return True

    def mark_clean(self, broker_epoch: int) -> None:
        checkpoints.write_clean_shutdown(self._files, self.path, broker_epoch)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def new_id(files: Files) -> str:
    """A random id as Kafka makes it: without a dash in front, which tools would take for an option."""
    while True:
        text = format_uuid(bytes.fromhex(files.unique_hex()))
        if not text.startswith("-"):
            return text


def parse_directory_name(name: str) -> TopicPartition | None:
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or name in _NOT_SERVED or topic_name_error(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def renamed(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """Kafka's name for a directory that is out of use; too long a topic name is shortened."""
    tail = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: _MAX_NAME_LENGTH - len(tail)] + tail


def renamed_path(path: str, unique: str, suffix: str) -> str:
    """The same for the path of a partition's directory."""
    root, _, name = path.rpartition("/")
    topic, _, partition = name.rpartition("-")
    return f"{root}/{renamed(TopicPartition(topic, int(partition)), unique, suffix)}"


def _is_deleted(name: str) -> bool:
    return _renamed_stem(name, DELETE_SUFFIX) is not None


def _renamed_stem(name: str, suffix: str) -> str | None:
    """``topic-partition`` of a directory that ``renamed`` has named with this suffix."""
    stem = name.removesuffix(suffix)
    match = re.fullmatch(r"(.+-\d+)\.[0-9a-f]{32}", stem)
    return match[1] if match is not None and stem != name else None
