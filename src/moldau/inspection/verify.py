"""The check of everything in a data directory, which a broker does not do at start: it may take hours.

``plan`` makes jobs: one for each segment (``segment_checks``), one for each partition, one for the
directory. A job is a plain value whose ``run`` may be called in any process.

Invariant: reads only. A fault is a ``Finding`` with file, position, offset, meaning and action; only a file
that cannot be opened or read is an exception (OSError).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from moldau.base.names import TopicPartition, Uuid, format_uuid
from moldau.inspection.contents import HoleKind, Offsets, classify_holes, read_offsets
from moldau.inspection.findings import Finding, note, problem, warning
from moldau.inspection.history import History, consistent_epochs, walk_partition
from moldau.inspection.layout import (
    UNFINISHED_SUFFIX,
    LogTarget,
    PartitionFiles,
    SegmentFiles,
    directories_out_of_use,
)
from moldau.inspection.segment_checks import SegmentJob, SegmentReport
from moldau.protocol.checksum import crc32c
from moldau.storage.directory import checkpoints
from moldau.storage.errors import CorruptFileError
from moldau.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from moldau.storage.files import OsFiles
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache
from moldau.storage.log.producer_state import ProducerStates
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

_REPAIR = "'moldau log repair' writes it anew from the log"
_RESTORE = "restore it from a backup or a replica"
_NO_PARTITION = TopicPartition("", 0)
#: Names of files of one kind that are listed.
_MAX_NAMES = 3
#: Leftovers that a start removes or completes by itself.
_REMOVED_AT_START = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX, TEMPORARY_SUFFIX, UNFINISHED_SUFFIX)


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """The checks that need all segments of a partition."""

    partition: PartitionFiles
    offsets: Offsets
    clean: bool
    #: The id in the metadata; None if unknown.
    topic_id: Uuid | None = None

    @property
    def size(self) -> int:
        return 0

    def run(self) -> SegmentReport:
        return SegmentReport(list(_check_partition(self)), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DirectoryJob:
    """The files at the root of a data directory."""

    root: Path
    partitions: tuple[PartitionFiles, ...]
    #: The partitions in the metadata, with the ids of their topics; None if unknown.
    expected: Mapping[str, Uuid] | None = None
    #: Partitions in other data directories of the same broker.
    elsewhere: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return 0

    def run(self) -> SegmentReport:
        return SegmentReport(list(_check_directory(self)), 0, 0, 0)


Job = SegmentJob | PartitionJob | DirectoryJob


def plan(
    target: LogTarget,
    *,
    deep: bool = True,
    running: bool = False,
    expected: Mapping[str, Uuid] | None = None,
    elsewhere: frozenset[str] = frozenset(),
) -> list[Job]:
    """The checks to run; of a running broker only what it does not write to any more."""
    root = target.root
    offsets = read_offsets(None if root is None else str(root))
    clean = root is not None and (root / checkpoints.CLEAN_SHUTDOWN_FILE).exists()
    jobs: list[Job] = []
    whole = target.path.is_dir()
    if root is not None and target.path == root and not running:
        jobs.append(DirectoryJob(root, target.partitions, expected, elsewhere))
    for partition in target.partitions:
        recovery_point = offsets.recovery_points.get(partition.name, 0)
        if clean:
            partition = partition.ending_at(offsets.recovery_points.get(partition.name))
        jobs += (
            SegmentJob(segment, clean, recovery_point, deep)
            for segment in partition.segments
            if not (running and segment.is_last)
        )
        if whole and not running:
            jobs.append(PartitionJob(partition, offsets, clean, (expected or {}).get(partition.name)))
    return jobs


# One partition -----------------------------------------------------------------------------------------


def _check_partition(job: PartitionJob) -> Iterator[Finding]:
    partition = job.partition
    yield from _check_names(partition)
    yield from _check_topic_id(job)
    if not partition.segments:
        meaning = "a broker that opens the partition begins it anew"
        yield problem(str(partition.path), "there is no .log file", meaning, _RESTORE)
        return
    history = History()
    snapshots = SnapshotCheck(partition)
    for segment, found in walk_partition(partition, history):
        if found is None:
            snapshots.compare(segment.base_offset, history)
    snapshots.compare(history.next_offset, history)
    yield from snapshots.findings
    if not history.damaged_ranges:
        yield from _check_txn_indexes(partition, history)
        yield from _check_epochs(job, history)
    yield from _check_holes(job, history)
    yield from _check_offsets(job, history)
    for offset, reason in history.bad_markers:
        meaning = "readers of committed records wait at it for ever"
        yield problem(
            str(partition.path), f"a transaction marker makes no sense: {reason}", meaning, "", offset=offset
        )


def _check_names(partition: PartitionFiles) -> Iterator[Finding]:
    by_meaning: dict[str, list[str]] = {}
    for name, meaning in partition.leftovers():
        by_meaning.setdefault(meaning, []).append(name)
    for meaning, names in by_meaning.items():
        is_removed = names[0].endswith(_REMOVED_AT_START)
        action = "nothing: the next start tidies up" if is_removed else "look at it, then remove it"
        shown = ", ".join(names[:_MAX_NAMES])
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield note(str(partition.path), f"out of use: {shown}{more}", meaning, action)
    for name in partition.orphans():
        yield warning(
            str(partition.path / name),
            "is the index of a segment whose .log file is not there",
            "the next start removes it; the records are lost if the .log file is",
            f"look for {name.split('.', 1)[0]}{LOG_SUFFIX}",
        )
    for name in partition.unknown():
        yield note(str(partition.path / name), "is not a file of a broker", "it is left alone")


def _check_topic_id(job: PartitionJob) -> Iterator[Finding]:
    path = str(job.partition.path / checkpoints.PARTITION_METADATA_FILE)
    try:
        found = checkpoints.read_topic_id(OsFiles(), str(job.partition.path))
    except CorruptFileError as error:
        yield warning(
            path, error.reason, "the broker goes by the name of the topic and writes it anew", _RESTORE
        )
        return
    if found is None:
        yield warning(path, "is missing", "the broker goes by the name of the topic and writes it anew", "")
    elif job.topic_id is not None and found != job.topic_id:
        yield problem(
            path,
            f"says topic id {format_uuid(found)}, the metadata {format_uuid(job.topic_id)}",
            "the data belongs to another topic of this name: the next start puts it aside",
            "put the metadata that belongs to it in place, or the data of the topic there is now",
        )


def _check_holes(job: PartitionJob, history: History) -> Iterator[Finding]:
    for hole, kind in classify_holes(job.partition, history, job.offsets):
        if kind is HoleKind.MISSING_SEGMENT:
            yield problem(
                str(job.partition.path / file_name(hole.segment, LOG_SUFFIX)),
                f"offsets {hole.first} to {hole.last} are in no segment",
                "a segment is missing; consumers step over its offsets without a word",
                _RESTORE,
                offset=hole.first,
            )


def _check_offsets(job: PartitionJob, history: History) -> Iterator[Finding]:
    name, end = job.partition.name, history.next_offset
    for offsets, file, is_loss in (
        (job.offsets.recovery_points, checkpoints.RECOVERY_POINT_FILE, True),
        (job.offsets.high_watermarks, checkpoints.HIGH_WATERMARK_FILE, True),
        (job.offsets.log_start_offsets, checkpoints.LOG_START_OFFSET_FILE, False),
    ):
        offset = offsets.get(name)
        if offset is not None and offset > end:
            meaning = (
                "records that were once safely on disk are gone, and their offsets will be given out again"
                if is_loss
                else "everything in the log was deleted by a client; it begins behind its end"
            )
            where = str(job.partition.path.parent / file)
            what = f"{name} stands at offset {offset}, but the log ends at {end}"
            make = problem if is_loss else warning
            yield make(where, what, meaning, _RESTORE if is_loss else "", offset=offset)


class SnapshotCheck:
    """Compares the producer snapshots with the log."""

    def __init__(self, partition: PartitionFiles) -> None:
        self.findings: list[Finding] = []
        #: Bad snapshots, and the right content if the log tells it.
        self.contents: dict[int, bytes | None] = {}
        self._partition = partition
        self._left = sorted(partition.snapshots)

    def compare(self, offset: int, history: History) -> None:
        """Checks the snapshots up to ``offset``; against the log only if no record before it is missing."""
        while self._left and self._left[0] <= offset:
            at = self._left.pop(0)
            path = self._partition.path / file_name(at, SNAPSHOT_SUFFIX)
            is_known = history.is_complete and at == offset == history.next_offset
            fault = self._fault(path, at, history if is_known else None)
            if fault is not None:
                meaning = "what producers have sent is looked up in an older snapshot and in the log instead"
                self.findings.append(warning(str(path), fault, meaning, _REPAIR))
                self.contents[at] = history.producers.snapshot() if is_known else None

    def _fault(self, path: Path, offset: int, history: History | None) -> str | None:
        loaded = ProducerStates(_NO_PARTITION)
        try:
            loaded.load(path.read_bytes(), str(path), 0)
        except CorruptFileError as error:
            return error.reason
        for producer in loaded.active():
            if producer.last_offset >= offset:
                return f"producer {producer.producer_id} has offset {producer.last_offset}, which lies ahead"
        return None if history is None else _contradiction(loaded, history)


def _contradiction(loaded: ProducerStates, history: History) -> str | None:
    """How a snapshot contradicts the log; producers that expired or were compacted away may be missing."""
    for known in history.producers.active():
        kept = loaded.get(known.producer_id)
        if kept is None:
            if known.transaction_first_offset >= 0:
                return f"the open transaction of producer {known.producer_id} is not in it"
            continue
        if kept.epoch < known.epoch or (kept.epoch == known.epoch and kept.last_offset < known.last_offset):
            return (
                f"producer {known.producer_id} stands at epoch {kept.epoch} and offset {kept.last_offset}, "
                f"in the log at {known.epoch} and {known.last_offset}"
            )
        if kept.transaction_first_offset != known.transaction_first_offset:
            return (
                f"the transaction of producer {known.producer_id} began at {kept.transaction_first_offset}, "
                f"by the log at {known.transaction_first_offset}"
            )
    return None


def txn_index_fault(segment: SegmentFiles, history: History) -> tuple[str | None, list[AbortedTransaction]]:
    """What is wrong with the transaction index of a segment, and the entries that it should have.

    Where records are missing, the index may know better than the log where a transaction began.
    """
    path = str(segment.path(TXN_INDEX_SUFFIX))
    expected = history.aborted.get(segment.base_offset, [])
    try:
        entries = TxnIndex.load(OsFiles(), path).entries
        fault = None
    except CorruptFileError as error:
        entries, fault = [], error.reason
    # The last stable offset depends on when the entry was written; the other fields are in the log.
    by_marker = {entry.last_offset: entry for entry in entries}
    missing = [
        entry
        for entry in expected
        if (known := by_marker.get(entry.last_offset)) is None
        or (history.is_complete and known[:3] != entry[:3])
    ]
    by_marker.update((entry.last_offset, entry) for entry in missing)
    if fault is None and missing:
        fault = f"lacks the transaction that was aborted at offset {missing[0].last_offset}"
    return fault, [by_marker[offset] for offset in sorted(by_marker)]


def _check_txn_indexes(partition: PartitionFiles, history: History) -> Iterator[Finding]:
    for segment in partition.segments:
        fault, _ = txn_index_fault(segment, history)
        if fault is not None:
            meaning = "readers of committed records may get records of aborted transactions"
            yield problem(str(segment.path(TXN_INDEX_SUFFIX)), fault, meaning, _REPAIR)


def epochs_fault(
    partition: PartitionFiles, offsets: Offsets, history: History, *, clean: bool
) -> tuple[str, int | None] | None:
    """What is wrong with the leader epoch checkpoint, and at which offset."""
    epochs = LeaderEpochCache(OsFiles(), str(partition.path))
    try:
        epochs.load()
    except CorruptFileError as error:
        return error.reason, None
    start = offsets.log_start_offsets.get(partition.name, 0)
    # The file is written when the log is flushed: after a crash it may lack what was not flushed.
    known_up_to = history.next_offset if clean else offsets.recovery_points.get(partition.name, 0)
    written, _ = consistent_epochs(history.epochs)
    for at, (epoch, offset) in enumerate(written):
        until = written[at + 1][1] if at + 1 < len(written) else history.next_offset
        shown = max(offset, start)
        if shown < min(until, known_up_to) and epochs.epoch_of(shown) != epoch:
            return (
                f"says epoch {epochs.epoch_of(shown)} for offset {shown}, the batch there has {epoch}",
                shown,
            )
    return None


def _check_epochs(job: PartitionJob, history: History) -> Iterator[Finding]:
    fault = epochs_fault(job.partition, job.offsets, history, clean=job.clean)
    if fault is not None:
        what, offset = fault
        path = str(job.partition.path / checkpoints.LEADER_EPOCH_FILE)
        meaning = "a replica that compares logs may cut at a wrong place"
        yield warning(path, what, meaning, _REPAIR, offset=offset)
    for epoch, offset in consistent_epochs(history.epochs)[1]:
        what = f"the batch of offset {offset} has leader epoch {epoch}, which does not fit in between"
        meaning = "the checksum does not cover it; readers do not mind, nor does a broker alone"
        yield note(str(job.partition.path), what, meaning)


# The directory -----------------------------------------------------------------------------------------


def _check_directory(job: DirectoryJob) -> Iterator[Finding]:
    files = OsFiles()
    root = job.root
    try:
        if checkpoints.read_meta_properties(files, str(root)) is None:
            meaning = "a broker takes the directory for a new one"
            yield problem(str(root / checkpoints.META_PROPERTIES_FILE), "is missing", meaning, _RESTORE)
    except CorruptFileError as error:
        yield problem(error.path, error.reason, "a broker does not start on this directory", _RESTORE)
    yield from _check_checkpoints(job)
    if not (root / checkpoints.CLEAN_SHUTDOWN_FILE).exists() and job.partitions:
        yield note(
            str(root),
            "was not closed in order",
            "the next start checks every log above its recovery point",
        )
    for name, meaning in directories_out_of_use(root):
        yield note(str(root / name), "is out of use", meaning)
    yield from _check_topic_ids(job)


def checkpoint_fault(root: Path, name: str) -> str | None:
    """Why a checkpoint is not valid; None if it is, or if there is none."""
    files = OsFiles()
    path = root / name
    if not path.exists():
        return None
    try:
        checkpoints.read_offsets(files, str(path))
    except CorruptFileError as error:
        return error.reason
    try:
        checksums = checkpoints.read_checksums(files, str(root)).get(name)
    except CorruptFileError:
        return None  # the file of checksums has a finding of its own
    if checksums is not None and crc32c(path.read_bytes()) not in checksums:
        return f"its checksum is not the one in {checkpoints.CHECKSUMS_FILE}"
    return None


def _check_checkpoints(job: DirectoryJob) -> Iterator[Finding]:
    try:
        checkpoints.read_checksums(OsFiles(), str(job.root))
    except CorruptFileError as error:
        yield warning(error.path, error.reason, "checkpoints are not compared with their checksums", "")
    names = {partition.name for partition in job.partitions}
    for name in checkpoints.OFFSET_CHECKPOINT_FILES:
        path = job.root / name
        fault = checkpoint_fault(job.root, name)
        if fault is not None:
            meaning = "the next start does without it and checks more than needed"
            if name == checkpoints.LOG_START_OFFSET_FILE:
                meaning = "records that clients have deleted come back"
            yield warning(str(path), fault, meaning, "'moldau log repair' moves it aside")
            continue
        offsets = checkpoints.read_offsets(OsFiles(), str(path))
        strangers = [str(tp) for tp in offsets if str(tp) not in names and str(tp) != "__cluster_metadata-0"]
        if strangers:
            shown = ", ".join(strangers[:5]) + (" and more" if len(strangers) > 5 else "")
            yield note(str(path), f"names partitions that are not here: {shown}")


def _check_topic_ids(job: DirectoryJob) -> Iterator[Finding]:
    ids: dict[str, dict[Uuid, str]] = {}
    for partition in job.partitions:
        try:
            topic_id = checkpoints.read_topic_id(OsFiles(), str(partition.path))
        except CorruptFileError:
            continue
        if topic_id is not None and partition.topic_partition is not None:
            ids.setdefault(partition.topic_partition.topic, {}).setdefault(topic_id, partition.name)
    for topic, found in ids.items():
        if len(found) > 1:
            shown = ", ".join(f"{name} {format_uuid(topic_id)}" for topic_id, name in found.items())
            meaning = "its partitions come from different topics of this name"
            yield problem(str(job.root), f"topic {topic} has several ids: {shown}", meaning, _RESTORE)
    if job.expected is None:
        return
    here = {partition.name for partition in job.partitions}
    for name in sorted(job.expected.keys() - here - job.elsewhere):
        yield problem(
            str(job.root / name),
            "is not there, but the metadata names it",
            "the next start makes it anew and empty",
            f"{_RESTORE}; if log.dirs names several directories, give them all",
        )
    for name in sorted(here - job.expected.keys()):
        yield note(str(job.root / name), "belongs to no topic of the metadata", "nobody can read it")
