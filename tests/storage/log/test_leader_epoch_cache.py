"""Epochs and where they began."""

import pytest

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files
from moldau.storage.log.leader_epoch_cache import LeaderEpochCache


@pytest.fixture
def epochs(files: Files, directory: str) -> LeaderEpochCache:
    epochs = LeaderEpochCache(files, directory)
    for epoch, start in ((0, 0), (2, 10), (5, 30)):
        assert epochs.assign(epoch, start)
    return epochs


def test_the_file_is_kafkas(epochs: LeaderEpochCache, files: Files, directory: str) -> None:
    assert epochs.dirty
    assert epochs.content() == b"0\n3\n0 0\n2 10\n5 30\n"
    files.write_atomically(epochs.path, epochs.content())
    again = LeaderEpochCache(files, directory)
    again.load()
    assert again.entries() == epochs.entries() == [(0, 0), (2, 10), (5, 30)]
    assert again.latest == 5
    assert not again.dirty


def test_an_epoch_begins_once(epochs: LeaderEpochCache) -> None:
    assert not epochs.assign(5, 40)
    assert not epochs.assign(-1, 40)
    assert epochs.entries()[-1] == (5, 30)


def test_a_contradiction_replaces_what_it_contradicts(epochs: LeaderEpochCache) -> None:
    assert epochs.assign(6, 20)
    assert epochs.entries() == [(0, 0), (2, 10), (6, 20)]
    assert epochs.assign(1, 25)
    assert epochs.entries() == [(0, 0), (1, 25)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(5, (5, 44)), (6, (-1, -1)), (-1, (-1, -1)), (4, (2, 30)), (2, (2, 30)), (1, (0, 10)), (0, (0, 10))],
)
def test_end_offsets(epochs: LeaderEpochCache, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 44) == answer


def test_end_offset_of_an_epoch_older_than_all(files: Files, directory: str) -> None:
    epochs = LeaderEpochCache(files, directory)
    assert epochs.end_offset_for(0, 0) == (-1, -1)
    epochs.assign(4, 7)
    assert epochs.end_offset_for(3, 10) == (3, 7)


def test_epoch_of_an_offset(epochs: LeaderEpochCache) -> None:
    assert [epochs.epoch_of(offset) for offset in (0, 9, 10, 29, 30, 99)] == [0, 0, 2, 2, 5, 5]
    epochs.truncate_from_start(15)
    assert epochs.epoch_of(14) == -1


def test_cut_at_the_end(epochs: LeaderEpochCache) -> None:
    epochs.truncate_from_end(31)
    assert epochs.latest == 5
    epochs.truncate_from_end(30)
    assert epochs.entries() == [(0, 0), (2, 10)]
    epochs.truncate_from_end(0)
    assert epochs.entries() == []
    assert epochs.latest == -1


def test_cut_at_the_start(epochs: LeaderEpochCache) -> None:
    epochs.truncate_from_start(0)
    assert epochs.entries()[0] == (0, 0)
    epochs.truncate_from_start(2)
    assert epochs.entries() == [(0, 2), (2, 10), (5, 30)]
    epochs.truncate_from_start(10)
    assert epochs.entries() == [(2, 10), (5, 30)]
    epochs.truncate_from_start(99)
    assert epochs.entries() == [(5, 99)]


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\nx 0\n",
        b"0\nmany\n",
        b"0\n2\n1 0\n0 5\n",
        b"0\n2\n0 5\n0 6\n",
        b"0\n2\n0 5\n1 4\n",
        b"\xff\xfe",
        b"0\n",
    ],
)
def test_a_corrupt_file_is_told(files: Files, directory: str, content: bytes) -> None:
    files.write_atomically(f"{directory}/leader-epoch-checkpoint", content)
    epochs = LeaderEpochCache(files, directory)
    with pytest.raises(CorruptFileError, match="leader-epoch-checkpoint"):
        epochs.load()
    assert epochs.entries() == []


def test_no_file_and_an_empty_file(files: Files, directory: str) -> None:
    epochs = LeaderEpochCache(files, directory)
    epochs.load()
    files.write_atomically(f"{directory}/leader-epoch-checkpoint", b"")
    epochs.load()
    assert epochs.entries() == []
