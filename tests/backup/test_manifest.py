"""Manifests as values and as JSON; what an incremental run keeps."""

import json
from dataclasses import replace

import pytest

from moldau.backup.manifest import (
    BackupError,
    Chunk,
    GroupOffset,
    PartitionBackup,
    Run,
    SavedFile,
    TopicBackup,
    chunk_name,
    kept_chunks,
    may_continue,
    read_manifest,
    run_id_of,
    write_manifest,
)


def chunk(first: int, end: int) -> Chunk:
    return Chunk(f"chunks/{first}", 10, "0" * 64, first, end, 1000, 3)


RUN = Run(
    run_id_of(1_700_000_000_123),
    "cluster",
    1_700_000_000_123,
    1_700_000_001_000,
    {"orders": TopicBackup("id", {"retention.ms": "1"}, (PartitionBackup(5, 20, (chunk(5, 20),)),))},
    {"billing": (GroupOffset("orders", 0, 7, "řeka"),)},
    ((2, "orders", 3, "User:ann", "*", 3, 3),),
    (({"user": "ann", "client-id": None}, {"producer_byte_rate": 1000.0}),),
    {"log.cleaner.threads": "2"},
    SavedFile("schemas/x.jsonl", 3, "1" * 64),
)


def test_there_and_back() -> None:
    assert read_manifest("m", write_manifest(RUN)) == RUN
    assert RUN.run_id == "20231114T221320123Z"


def test_run_ids_sort_as_time() -> None:
    ids = [run_id_of(1_700_000_000_000 + ms) for ms in (0, 1, 99, 100, 1000, 86_400_000)]
    assert ids == sorted(ids)


def test_a_changed_digit_is_noticed() -> None:
    text = write_manifest(RUN).replace(b'"log_end_offset": 20', b'"log_end_offset": 21')
    with pytest.raises(BackupError, match="damaged"):
        read_manifest("m", text)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"format": "moldau-backup", "version": 1}', b"\xff"])
def test_what_is_no_manifest(text: bytes) -> None:
    with pytest.raises(BackupError, match="m "):
        read_manifest("m", text)


def test_other_formats_and_versions_are_named() -> None:
    content = json.loads(write_manifest(RUN))
    with pytest.raises(BackupError, match="no backup"):
        read_manifest("m", json.dumps({**content, "format": "other"}).encode())
    with pytest.raises(BackupError, match="version 9"):
        read_manifest("m", json.dumps({**content, "version": 9}).encode())


def test_chunks_of_the_source_are_kept() -> None:
    chunks = [chunk(0, 10), chunk(10, 20), chunk(20, 30)]
    assert kept_chunks(chunks, 0, 100) == tuple(chunks)
    assert kept_chunks(chunks, 10, 100) == tuple(chunks[1:]), "retention took the first"
    assert kept_chunks(chunks, 9, 100) == tuple(chunks), "one record of it is still there"
    assert kept_chunks(chunks, 0, 25) == tuple(chunks[:2]), "the source has another end"
    assert kept_chunks(chunks, 50, 100) == ()


def test_a_compacted_topic_is_copied_anew_after_its_tombstones_may_be_gone() -> None:
    compacted = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
    assert may_continue(0, 999, compacted)
    assert not may_continue(0, 1000, compacted)
    assert may_continue(0, 10**12, {"cleanup.policy": "delete", "delete.retention.ms": "1000"})
    assert not may_continue(0, 1, {"cleanup.policy": "compact,delete"})


def test_own_size_counts_what_the_run_itself_has_copied() -> None:
    own = replace(chunk(20, 30), name=chunk_name("orders", "id", 0, 20, RUN.run_id), size=7)
    topic = TopicBackup("id", {}, (PartitionBackup(0, 30, (chunk(0, 20), own)),))
    run = replace(RUN, topics={"orders": topic})
    assert (run.size, run.own_size) == (17, 7)
