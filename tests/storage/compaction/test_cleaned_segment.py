"""The files of a compaction: under names of their own, with the indexes that appends would have made."""

from typing import Any

from moldau.storage.compaction.cleaned_segment import CleanedSegment, remove_leftovers
from moldau.storage.log.txn_index import AbortedTransaction
from tests.storage.storage_fixtures import NOW, batch


def names(files: Any, directory: str) -> list[str]:
    return sorted(files.list_directory(directory))


def test_a_segment_with_its_indexes(files: Any, directory: str) -> None:
    segment = CleanedSegment(files, directory, 10, index_interval_bytes=50)
    batches = [bytes(batch(base_offset=offset, timestamp=NOW + offset)) for offset in (10, 11, 12)]
    for offset, content in zip((10, 11, 12), batches, strict=True):
        segment.append(content, offset, NOW + offset)
    assert segment.size == sum(len(each) for each in batches)
    assert segment.finish([]) == (".log", ".index", ".timeindex")
    assert files.read_whole(f"{directory}/00000000000000000010.log.cleaned") == b"".join(batches)
    entries = files.read_whole(f"{directory}/00000000000000000010.index.cleaned")
    assert len(entries) == 2 * 8
    assert int.from_bytes(entries[:4], "big") == 1, "the second batch, relative to the first offset"
    assert int.from_bytes(entries[4:8], "big") == len(batches[0])


def test_aborted_transactions_have_a_file_of_their_own(files: Any, directory: str) -> None:
    segment = CleanedSegment(files, directory, 0, 4096)
    segment.append(bytes(batch()), 0, NOW)
    assert ".txnindex" in segment.finish([AbortedTransaction(1, 0, 5, 6)])
    assert "00000000000000000000.txnindex.cleaned" in names(files, directory)


def test_leftovers_are_taken_away_and_nothing_else(files: Any, directory: str) -> None:
    for name in ("0.log", "0.log.cleaned", "0.log.swap"):
        files.create(f"{directory}/{name}")
    remove_leftovers(files, directory, ".cleaned")
    assert names(files, directory) == ["0.log", "0.log.swap"]
    remove_leftovers(files, directory)
    assert names(files, directory) == ["0.log"]
