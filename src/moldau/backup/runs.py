"""The runs of a backup in its store: found, chosen, checked, forgotten.

Invariant: a file is deleted only when no manifest names it, and a manifest is deleted before its files.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from moldau.backup.manifest import (
    CHUNKS,
    RUNS,
    SCHEMAS,
    BackupError,
    Chunk,
    PartitionBackup,
    Run,
    SavedFile,
    TopicBackup,
    manifest_name,
    read_manifest,
)
from moldau.base.object_stores import Store, StoreError
from moldau.protocol.errors import KafkaError
from moldau.protocol.records import batches, crc_matches


def read_runs(store: Store) -> list[Run]:
    """Every run, oldest first; BackupError names a manifest that is damaged."""
    return [_read_run(store, name) for name in _manifests(store)]


def latest_run(store: Store) -> Run | None:
    names = _manifests(store)
    return _read_run(store, names[-1]) if names else None


def _manifests(store: Store) -> list[str]:
    return [name for name in store.names(RUNS) if name.endswith(".json")]


def _read_run(store: Store, name: str) -> Run:
    return read_manifest(name, read_file(store, name))


def read_file(store: Store, name: str) -> bytes:
    try:
        return store.get(name)
    except (OSError, StoreError) as error:
        raise BackupError(f"{name} cannot be read: {error}") from error


def read_saved(store: Store, file: SavedFile) -> bytes:
    """The content of a file, compared with its checksum."""
    data = read_file(store, file.name)
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
        raise BackupError(f"{file.name} is damaged: it is not what its manifest says")
    return data


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a restore takes: records of one run, groups and access of the last run that was not later."""

    records: Run
    state: Run


def choose(runs: list[Run], *, run_id: str | None = None, at_ms: int | None = None) -> Chosen:
    """The run of this name, the newest, or for a time the first that has everything up to it.

    What the source had deleted by then is taken from the run before the time.
    """
    if not runs:
        raise BackupError("there is no backup here: 'moldau backup create' makes one")
    if run_id is not None:
        for run in runs:
            if run.run_id == run_id:
                return Chosen(run, run)
        raise BackupError(f"there is no run {run_id}: 'moldau backup list' shows what there is")
    if at_ms is None:
        return Chosen(runs[-1], runs[-1])
    earlier = [run for run in runs if run.started_ms < at_ms]
    later = runs[len(earlier) :]
    records = later[0] if later else runs[-1]
    if earlier and later:
        records = _with_what_went(records, earlier[-1], at_ms)
    before = [run for run in runs if run.finished_ms <= at_ms]
    return Chosen(records, before[-1] if before else records)


def _with_what_went(later: Run, earlier: Run, at_ms: int) -> Run:
    """The later run, and what was deleted at the source since the earlier one.

    Whoever goes back to a time is often after just that: topics that somebody deleted after it, or records.
    """
    topics = dict(later.topics)
    for name, topic in earlier.topics.items():
        topics[name] = _topic_then(later.topics.get(name), topic, at_ms)
    return replace(later, topics=topics)


def _topic_then(later: TopicBackup | None, earlier: TopicBackup, at_ms: int) -> TopicBackup:
    if later is None:
        return earlier
    if later.topic_id != earlier.topic_id:
        # It was deleted and made again: after the time, unless records tell otherwise.
        chunks = (chunk for partition in later.partitions for chunk in partition.chunks)
        return later if any(chunk.max_timestamp <= at_ms for chunk in chunks) else earlier
    if any("compact" in each.configs.get("cleanup.policy", "") for each in (later, earlier)):
        return later  # a tombstone that is gone would not be there to delete what comes back
    partitions = list(later.partitions)
    for index, before in enumerate(earlier.partitions[: len(partitions)]):
        partitions[index] = _partition_then(partitions[index], before)
    return replace(later, partitions=tuple(partitions))


def _partition_then(later: PartitionBackup, earlier: PartitionBackup) -> PartitionBackup:
    if later.log_start_offset <= earlier.log_start_offset:
        return later
    begin = later.chunks[0].first_offset if later.chunks else later.log_end_offset
    older = tuple(chunk for chunk in earlier.chunks if chunk.next_offset <= begin)
    return PartitionBackup(earlier.log_start_offset, later.log_end_offset, (*older, *later.chunks))


def problems(store: Store, run: Run) -> Iterator[str]:
    """Everything that is wrong with the files of a run, in words."""
    for topic, saved_topic in run.topics.items():
        for index, partition in enumerate(saved_topic.partitions):
            yield from _partition_problems(store, f"{topic}-{index}", partition)
    if run.schemas is not None:
        try:
            read_saved(store, run.schemas)
        except BackupError as error:
            yield str(error)


def _partition_problems(store: Store, name: str, partition: PartitionBackup) -> Iterator[str]:
    at = 0
    for chunk in partition.chunks:
        if chunk.first_offset < at:
            yield f"{name}: {chunk.name} begins at {chunk.first_offset}, before {at}, where the last ends"
        at = chunk.next_offset
        try:
            data = read_saved(store, chunk)
        except BackupError as error:
            yield f"{name}: {error}"
            continue
        problem = _chunk_problem(chunk, data)
        if problem is not None:
            yield f"{name}: {chunk.name}: {problem}"
    if at > partition.log_end_offset:
        yield f"{name}: its chunks end at {at}, behind its end {partition.log_end_offset}"


def _chunk_problem(chunk: Chunk, data: bytes) -> str | None:
    first, end, size = -1, chunk.first_offset, 0
    try:
        for position, header in batches(data):
            if not crc_matches(data, position, header.size):
                return f"the batch at offset {header.base_offset} has a wrong checksum"
            if first < 0:
                first = header.base_offset
            elif header.base_offset < end:
                return f"the batch at offset {header.base_offset} comes twice"
            end, size = header.last_offset + 1, position + header.size
    except KafkaError as error:
        return str(error)
    if (first, end, size) != (chunk.first_offset, chunk.next_offset, len(data)):
        return f"it has offsets {first} to {end}, not {chunk.first_offset} to {chunk.next_offset}"
    return None


def prune(store: Store, keep: int) -> tuple[list[str], int]:
    """Forgets all runs but the newest ``keep``; the ids that went, and how many files nobody names now."""
    runs = read_runs(store)
    gone = runs[: len(runs) - keep] if keep < len(runs) else []
    for run in gone:
        store.delete(manifest_name(run.run_id))
    named = set()
    for run in runs[len(gone) :]:
        named |= {chunk.name for chunk in run.chunks}
        named |= {run.schemas.name} if run.schemas is not None else set()
    newest = runs[-1].run_id if runs else ""
    # A run that is under way has no manifest yet: its files are newer than every run that has one.
    unused = [n for prefix in (CHUNKS, SCHEMAS) for n in store.names(prefix) if n not in named]
    old = [name for name in unused if _run_of(name) <= newest]
    for name in old:
        store.delete(name)
    return [run.run_id for run in gone], len(old)


def _run_of(name: str) -> str:
    """The run that wrote a file."""
    return name.rpartition("/")[2].rpartition(".")[0].rpartition("-")[2]
