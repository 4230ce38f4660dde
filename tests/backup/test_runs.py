"""Runs that are chosen, checked and forgotten."""

from dataclasses import replace
from pathlib import Path

import pytest

from moldau.backup.manifest import (
    BackupError,
    Chunk,
    PartitionBackup,
    Run,
    TopicBackup,
    chunk_name,
    manifest_name,
    run_id_of,
    saved,
    write_manifest,
)
from moldau.backup.runs import choose, latest_run, problems, prune, read_runs
from moldau.base.object_stores import LocalStore
from moldau.protocol.records import Record, encode_batch


def batch(first: int, count: int) -> bytes:
    records = [Record(first + n, 1000 + n, b"k", b"v%d" % n, ()) for n in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=0))


def add_run(store: LocalStore, started_ms: int, kept: tuple[Chunk, ...], first: int, count: int) -> Run:
    run_id = run_id_of(started_ms)
    data = batch(first, count)
    name = chunk_name("orders", "id", 0, first, run_id)
    store.put(name, data)
    file = saved(name, data)
    new = Chunk(name, file.size, file.sha256, first, first + count, 1000 + count - 1, 0)
    partition = PartitionBackup(0, first + count, (*kept, new))
    run = Run(run_id, "c", started_ms, started_ms + 10, {"orders": TopicBackup("id", {}, (partition,))})
    store.put(manifest_name(run_id), write_manifest(run))
    return run


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def runs(store: LocalStore) -> list[Run]:
    first = add_run(store, 1000, (), 0, 5)
    second = add_run(store, 2000, tuple(first.chunks), 5, 5)
    return [first, second]


def test_runs_are_found_in_order(store: LocalStore, runs: list[Run]) -> None:
    assert read_runs(store) == runs
    assert latest_run(store) == runs[1]


def test_which_run_a_restore_takes(runs: list[Run]) -> None:
    first, second = runs
    assert choose(runs).records == second
    assert choose(runs, run_id=first.run_id).state == first
    assert choose(runs, at_ms=500).records == first
    assert (choose(runs, at_ms=1500).records, choose(runs, at_ms=1500).state) == (second, first)
    assert choose(runs, at_ms=9999).records == second
    with pytest.raises(BackupError, match="no run x"):
        choose(runs, run_id="x")
    with pytest.raises(BackupError, match="no backup"):
        choose([])


def test_a_time_before_a_topic_was_deleted_has_the_topic(runs: list[Run]) -> None:
    """The accident that one goes back for: the run after it has the topic no more."""
    first, second = runs
    gone = replace(second, topics={})
    assert choose([first, gone], at_ms=1500).records.topics == first.topics
    assert choose([first, gone], at_ms=2500).records.topics == {}, "it was deleted before that"
    assert choose([first, gone], run_id=gone.run_id).records.topics == {}


@pytest.mark.parametrize(("newest_ms", "expected"), [(1_400, "new"), (1_600, "id")])
def test_a_topic_that_was_made_again(runs: list[Run], newest_ms: int, expected: str) -> None:
    """The new one is meant where it had records by then."""
    first, second = runs
    chunk = replace(second.chunks[-1], max_timestamp=newest_ms)
    again = replace(second, topics={"orders": TopicBackup("new", {}, (PartitionBackup(0, 10, (chunk,)),))})
    assert choose([first, again], at_ms=1500).records.topics["orders"].topic_id == expected


def test_a_time_before_records_were_deleted_has_the_records(runs: list[Run]) -> None:
    first, second = runs
    (kept,) = (each for each in second.chunks if each not in first.chunks)

    def emptied(start: int, chunks: tuple[Chunk, ...], **configs: str) -> Run:
        topic = TopicBackup("id", configs, (PartitionBackup(start, 10, chunks),))
        return replace(second, topics={"orders": topic})

    partly = choose([first, emptied(5, (kept,))], at_ms=1500).records.topics["orders"].partitions
    assert partly == second.topics["orders"].partitions
    wholly = choose([first, emptied(10, ())], at_ms=1500).records.topics["orders"].partitions
    assert wholly == (PartitionBackup(0, 10, tuple(first.chunks)),)
    compacted = emptied(10, (), **{"cleanup.policy": "compact,delete"})
    assert choose([first, compacted], at_ms=1500).records.topics == compacted.topics


def test_a_whole_backup_has_no_problems(store: LocalStore, runs: list[Run]) -> None:
    assert [list(problems(store, run)) for run in runs] == [[], []]


def test_damage_is_found(store: LocalStore, runs: list[Run], tmp_path: Path) -> None:
    name = runs[0].chunks[0].name
    data = bytearray((tmp_path / name).read_bytes())
    data[-1] ^= 1
    (tmp_path / name).write_bytes(data)
    assert len(list(problems(store, runs[0]))) == 1
    assert len(list(problems(store, runs[1]))) == 1, "the second run counts on it, too"
    (tmp_path / name).unlink()
    (found,) = problems(store, runs[1])
    assert name in found


def test_wrong_batches_under_a_right_checksum_are_found(store: LocalStore, runs: list[Run]) -> None:
    data = bytearray(batch(0, 5))
    data[-1] ^= 1
    name = runs[0].chunks[0].name
    store.put(name, bytes(data))
    topic = runs[0].topics["orders"]
    chunk = replace(topic.partitions[0].chunks[0], sha256=saved(name, bytes(data)).sha256)
    run = replace(runs[0], topics={"orders": replace(topic, partitions=(PartitionBackup(0, 5, (chunk,)),))})
    (found,) = problems(store, run)
    assert "wrong checksum" in found


def test_pruning_keeps_what_is_needed(store: LocalStore, runs: list[Run]) -> None:
    third = add_run(store, 3000, (), 10, 1)
    store.put(chunk_name("orders", "id", 0, 11, run_id_of(4000)), b"a run that is under way")
    assert prune(store, 2) == ([runs[0].run_id], 0), "the second run needs the chunk of the first"
    assert prune(store, 1) == ([runs[1].run_id], 2)
    assert read_runs(store) == [third]
    assert len(store.names("chunks/")) == 2
