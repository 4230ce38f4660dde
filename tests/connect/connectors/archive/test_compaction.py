"""Small files merged, by tasks that die at every possible moment: the archive reads the same at each."""

from pathlib import Path

import pytest

from moldau.connect.connectors.archive.compaction import files_that_count, flushes_that_count, run_to_merge
from moldau.connect.connectors.archive.names import FileName, Flush
from moldau.connect.connectors.archive.stores import LocalStore
from tests.connect.connectors.archive.test_sink import Died, record, reloaded, started


class Fragile(LocalStore):
    """Dies at the write or removal with this number."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.left = at

    def put(self, name: str, content: bytes) -> None:
        self._step()
        super().put(name, content)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Died


def flush(first: int, last: int) -> Flush:
    return Flush("t", 0, first, last)


def test_what_counts() -> None:
    found = flushes_that_count([flush(4, 5), flush(0, 3), flush(0, 1), flush(2, 3), Flush("t", 1, 0, 0)])
    assert found == [flush(0, 3), flush(4, 5), Flush("t", 1, 0, 0)]
    files = [
        FileName("t", 0, *each, "json", folder) for *each, folder in [(0, 1, "a"), (0, 3, "a"), (2, 2, "b")]
    ]
    assert files_that_count(files, flush(0, 3)) == [files[1], files[2]]
    assert files_that_count(files, flush(0, 1)) == [files[0]]


def test_what_is_merged() -> None:
    flushes = [flush(0, 99), flush(100, 101), flush(102, 103)]
    assert run_to_merge(flushes, 2, 50) == flushes[1:]
    assert run_to_merge(flushes, 3, 50) == ()
    assert run_to_merge(flushes, 3, 1000) == flushes
    assert run_to_merge(flushes, 0, 1000) == ()


@pytest.mark.parametrize("dies_at", range(1, 40, 2))
def test_every_offset_once_whatever_dies(tmp_path: Path, dies_at: int) -> None:
    """Folders by field, and a schema that changes: json values and texts."""
    records = [
        record(n, value={"c": "xyz"[n % 3], "n": n} if n < 8 else {"c": "x", "n": n, "more": True})
        for n in range(16)
    ]
    settings = {"flush_size": "2", "partitioner_class": "field", "partition_field_name": "c"}
    for attempt in (dies_at, dies_at + 1, 1000):
        task = started(tmp_path, Fragile(tmp_path, attempt), compact_flushes="3", **settings)
        try:
            for start in range(0, 16, 4):
                task.put(records[start : start + 4])
        except Died:
            if attempt == dies_at:  # what counts is whole at this moment too, as far as it goes
                found = [
                    each.value["n"] for each in reloaded(tmp_path, 99).records if isinstance(each.value, dict)
                ]
                assert found == list(range(len(found)))
    numbers = [each.value["n"] for each in reloaded(tmp_path, 16).records if isinstance(each.value, dict)]
    assert numbers == list(range(16))


def test_there_are_fewer_files(tmp_path: Path) -> None:
    task = started(tmp_path, flush_size="2", compact_flushes="4", compact_max_records="16")
    for start in range(0, 40, 2):
        task.put([record(start), record(start + 1)])
    files = list((tmp_path / "topics/orders").rglob("*.parquet"))
    assert len(files) <= 6
    assert [each.key for each in reloaded(tmp_path, 40).records] == [f"k{n}" for n in range(40)]
