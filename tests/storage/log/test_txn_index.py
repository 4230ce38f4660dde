"""The index of aborted transactions: Kafka's bytes, look-ups, and corrupt files."""

import pytest

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.txn_index import AbortedTransaction, TxnIndex

# What a real broker wrote.
KAFKA_TXN_INDEX = bytes.fromhex("0000000000000000000d000000000000000400000000000000070000000000000008")


def test_kafkas_bytes(files: Files, directory: str) -> None:
    path = f"{directory}/x"
    index = TxnIndex.load(files, path)
    assert index.entries == []
    assert not files.exists(path)
    index.append(AbortedTransaction(13, 4, 7, 8))
    assert files.read_whole(path) == KAFKA_TXN_INDEX
    index.append(AbortedTransaction(14, 5, 9, 10))
    assert TxnIndex.load(files, path).entries == index.entries


def test_collect() -> None:
    index = TxnIndex(MemoryFiles(), "/x")
    first, second, third = (
        AbortedTransaction(1, 0, 5, 2),
        AbortedTransaction(2, 2, 7, 8),
        AbortedTransaction(3, 10, 15, 16),
    )
    for entry in (first, second, third):
        index.append(entry)
    assert index.collect(0, 100) == ([first, second, third], False)
    assert index.collect(6, 9) == ([second], True)
    assert index.collect(6, 8) == ([second], True)
    assert index.collect(0, 2) == ([first], True)
    assert index.collect(8, 10) == ([], True)


def test_cut(files: Files, directory: str) -> None:
    path = f"{directory}/x"
    index = TxnIndex(files, path)
    index.append(AbortedTransaction(1, 0, 5, 6))
    index.append(AbortedTransaction(2, 6, 9, 10))
    index.truncate(10)
    assert len(index.entries) == 2
    index.truncate(9)
    assert TxnIndex.load(files, path).entries == [AbortedTransaction(1, 0, 5, 6)]
    index.truncate(0)
    assert not files.exists(path)


@pytest.mark.parametrize("content", [KAFKA_TXN_INDEX[:-1], b"\0\1" + KAFKA_TXN_INDEX[2:], b"\xff" * 34])
def test_corrupt(files: Files, directory: str, content: bytes) -> None:
    files.write_atomically(f"{directory}/x", content)
    with pytest.raises(CorruptFileError):
        TxnIndex.load(files, f"{directory}/x")
