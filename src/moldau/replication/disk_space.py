"""How much room the data directories have: a warning when it becomes scarce, and a floor for producers.

Below ``moldau.disk.free.min.bytes`` the partitions of a directory take nothing more from producers and
mirrors, with an error that clients try again. What is left is for what must not fail: offsets of groups,
ends of transactions, checkpoints, metadata, and the renames with which retention makes room.

Invariant: reads are never refused, nor what the platform writes itself. Writes are taken again without a
restart, once there is a tenth more than the floor, so that a directory on the edge does not flap.
"""

import logging
from collections.abc import Mapping

from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.replication.replicas import Replicas
from moldau.storage.directory.logs import Logs

log = logging.getLogger("moldau.storage")

CHECK_SECONDS = 1.0
_MEGABYTE = 1_000_000


class DiskSpace:
    def __init__(self, logs: Logs, replicas: Replicas, settings: BrokerSettings) -> None:
        self._logs = logs
        self._replicas = replicas
        self._settings = settings
        self._warned: set[str] = set()

    def measure(self) -> dict[str, int]:
        """Free bytes by directory; in a thread, for a file system may not answer."""
        found = {}
        for directory in tuple(self._logs.online):
            try:
                found[directory.path] = directory.volume_bytes()[1]
            except OSError as error:
                log.warning("the free space of %s is not known: %s", directory.path, error)
        return found

    def take(self, free: Mapping[str, int]) -> None:
        """Says what has become scarce, and lets partitions refuse or take writes."""
        floor = self._settings.moldau_disk_free_min_bytes
        refusing = self._replicas.full_directories
        for path, size in free.items():
            self._warn(path, size)
            enough = floor + floor // 10 if path in refusing else floor
            if size >= enough:
                if refusing.pop(path, None) is not None:
                    log.warning("%s has %d MB free: producers may write again", path, size // _MEGABYTE)
                continue
            reason = (
                f"The disk of {path} has {size // _MEGABYTE} MB free, and moldau.disk.free.min.bytes is "
                f"{floor}: nothing is written until there is room."
            )
            if path not in refusing:
                log.error("producers are refused: %s", reason)
            refusing[path] = reason
        self._tell()

    def _warn(self, path: str, size: int) -> None:
        scarce = size < self._settings.moldau_disk_free_warn_bytes
        if scarce and path not in self._warned:
            self._warned.add(path)
            log.warning("the disk of %s is nearly full: %d MB are free", path, size // _MEGABYTE)
        elif not scarce:
            self._warned.discard(path)

    def _tell(self) -> None:
        """Partitions know by themselves why they refuse, so that a produce request asks nobody."""
        refusing = self._replicas.full_directories
        if not refusing and not self._replicas.refusing:
            return
        now = set()
        for partition in self._replicas if refusing else ():
            directory = self._logs.directory_of(partition.topic_partition)
            partition.full = None if directory is None else refusing.get(directory.path)
            if partition.full is not None:
                now.add(partition)
        for partition in self._replicas.refusing - now:
            partition.full = None
        self._replicas.refusing = now
