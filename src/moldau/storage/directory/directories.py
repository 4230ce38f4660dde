"""Taking the data directories of a broker into use: lock them, identify them, find missing ones.

Invariant: a directory that was in use and is empty now is most likely a disk that is not mounted. It is
never taken for a new one: its partitions would be served as if they were empty.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from moldau.base.clock import Clock
from moldau.base.names import TopicPartition, Uuid, parse_uuid
from moldau.storage.directory.checkpoints import MetaProperties
from moldau.storage.directory.log_directory import LogDirectory, new_id
from moldau.storage.errors import MAKE_ROOM, StorageError
from moldau.storage.files import Files

logger = logging.getLogger("moldau.storage")

#: With less the disk counts as full.
_LITTLE_SPACE = 1024 * 1024
_PROGRESS_SECONDS = 1.0

OnFailure = Callable[[LogDirectory, str], None]
Identities = dict[LogDirectory, MetaProperties | None]


def claim_directories(
    files: Files,
    directories: Sequence[LogDirectory],
    node_id: int,
    cluster_id: str | None,
    clock: Clock,
    on_failure: OnFailure,
) -> str:
    """Locks and identifies each directory and reads its checkpoints; returns the id of their cluster.

    ``on_failure`` is called for a directory that cannot be used. StorageError when none is left, or when one
    is in use elsewhere or belongs to another broker or cluster.
    """
    identities: Identities = {}
    for directory in directories:
        try:
            identities[directory] = directory.lock()
        except OSError as error:
            on_failure(directory, str(error))
    if not identities:
        reasons = "; ".join(f"{directory.path}: {directory.offline}" for directory in directories)
        raise StorageError(f"no data directory can be used: {reasons}")
    known = {path: used for directory in identities for path, used in directory.siblings().items()}
    _find_missing(identities, known, cluster_id, on_failure)
    if cluster_id is None:
        clusters = (found.cluster_id for found in identities.values() if found is not None)
        cluster_id = next(clusters, None) or new_id(files)
    for directory, identity in identities.items():
        try:
            directory.identify(identity, node_id, cluster_id, f"written at {clock.now_ms()} ms")
            directory.read_checkpoints()
        except OSError as error:
            on_failure(directory, str(error))
    _update_siblings(directories, known)
    return cluster_id


def name_full_disks(directories: Sequence[LogDirectory]) -> None:
    """Says which disks have no room, and what to do about it."""
    for directory in directories:
        total, free = directory.volume_bytes()
        if free < min(_LITTLE_SPACE, total // 50):
            message = "%s: the disk is full, %d bytes are left. What is there is served, and writes are "
            message += "refused until there is room. Next: %s"
            logger.error(message, directory.path, free, MAKE_ROOM)


def directory_ids(directories: Sequence[LogDirectory]) -> tuple[Uuid, ...]:
    """Of those that have one: Kafka has not always given them ids."""
    found = []
    for directory in directories:
        with suppress(ValueError):
            found.append(parse_uuid(directory.directory_id))
    return tuple(found)


def log_progress(clock: Clock) -> Callable[[int, int, TopicPartition], None]:
    """Logs how far the opening of many logs has come, at most once a second."""
    logged_at = clock.monotonic()

    def progress(done: int, total: int, topic_partition: TopicPartition) -> None:
        nonlocal logged_at
        if clock.monotonic() - logged_at >= _PROGRESS_SECONDS:
            logged_at = clock.monotonic()
            logger.info("opened %d of %d logs, now at %s", done, total, topic_partition)

    return progress


def _find_missing(
    identities: Identities, known: Mapping[str, str], cluster_id: str | None, on_failure: OnFailure
) -> None:
    for directory, identity in tuple(identities.items()):
        if identity is not None or directory.path not in known:
            continue
        reason = (
            f"it was in use with directory.id={known[directory.path]} and is empty now: is its disk mounted? "
            "If it is to begin empty, leave it out of log.dirs for one start"
        )
        if cluster_id is None:
            # The metadata is new too: most likely it is on the missing disk.
            raise StorageError(f"data directory {directory.path} is missing: {reason}")
        del identities[directory]
        on_failure(directory, reason)


def _update_siblings(directories: Sequence[LogDirectory], known: Mapping[str, str]) -> None:
    if len(directories) == 1 and not known:
        return
    used = {each.path: each.directory_id or known.get(each.path, "") for each in directories}
    siblings = {path: directory_id for path, directory_id in used.items() if directory_id}
    for directory in directories:
        if directory.offline is not None:
            continue
        try:
            directory.update_siblings(siblings)
        except OSError as error:
            logger.warning("%s: the list of data directories cannot be written: %s", directory.path, error)
