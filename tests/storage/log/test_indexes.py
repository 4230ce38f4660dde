"""The indexes of offsets and times: Kafka's bytes, look-ups, and corrupt files."""

import pytest

from moldau.storage.errors import CorruptFileError
from moldau.storage.files import Files, MemoryFiles
from moldau.storage.log.indexes import OffsetIndex, TimeIndex

# What a real broker wrote: one entry per batch of about 16 KB.
KAFKA_OFFSET_INDEX = bytes.fromhex("0000012700003f95000001bb00007f2a0000024f0000bebf")
KAFKA_TIME_INDEX = bytes.fromhex("000001a1e12ff8ca00000127")


class TestOffsetIndex:
    def test_kafkas_bytes(self, files: Files, directory: str) -> None:
        path = f"{directory}/00000000000000000000.index"
        index = OffsetIndex(files, path, 0)
        for entry in ((295, 16277), (443, 32554), (591, 48831)):
            index.append(*entry)
        index.write()
        assert files.read_whole(path) == KAFKA_OFFSET_INDEX
        assert OffsetIndex.load(files, path, 0, 65108).entries() == index.entries()

    def test_relative_to_the_base(self, files: Files, directory: str) -> None:
        path = f"{directory}/i"
        index = OffsetIndex(files, path, 10**12)
        index.append(10**12 + 295, 16277)
        index.write()
        assert files.read_whole(path) == KAFKA_OFFSET_INDEX[:8]
        assert index.last() == (10**12 + 295, 16277)
        assert OffsetIndex.load(files, path, 10**12, 20000).lookup(10**12 + 300) == (10**12 + 295, 16277)

    def test_lookup(self) -> None:
        index = OffsetIndex(MemoryFiles(), "/i", 100)
        assert index.lookup(5) == (-1, 0)
        assert index.last() == (-1, 0)
        for offset, position in ((110, 1000), (120, 2000)):
            index.append(offset, position)
        expected = {99: (-1, 0), 109: (-1, 0), 110: (110, 1000), 119: (110, 1000), 120: (120, 2000)}
        assert {offset: index.lookup(offset) for offset in expected} == expected
        assert index.lookup(10**9) == (120, 2000)
        assert len(index) == 2

    def test_written_in_pieces(self, files: Files, directory: str) -> None:
        path = f"{directory}/i"
        files.write_atomically(path, b"what was there before")
        index = OffsetIndex(files, path, 0)
        index.write()
        assert files.read_whole(path) == b""
        for at in range(1, 50):
            index.append(at, at * 10)
            assert index.unwritten == (at - 1) % 7 + 1
            if at % 7 == 0:
                index.write()
                index.write()
        index.write()
        assert OffsetIndex.load(files, path, 0, 1000).entries() == index.entries()

    def test_cut(self, files: Files, directory: str) -> None:
        path = f"{directory}/i"
        index = OffsetIndex(files, path, 0)
        for at in range(1, 10):
            index.append(at, at * 10)
        index.write()
        index.truncate(55)
        assert index.last() == (5, 50)
        index.truncate(50)
        assert index.last() == (4, 40)
        index.write()
        assert OffsetIndex.load(files, path, 0, 1000).entries() == index.entries()

    def test_a_full_disk_loses_no_entries(self) -> None:
        files = MemoryFiles()
        index = OffsetIndex(files, "/i", 0)
        index.append(1, 10)
        files.faults.bytes_until_full = 4
        with pytest.raises(OSError, match="No space"):
            index.write()
        files.faults.bytes_until_full = None
        index.append(2, 20)
        index.write()
        assert OffsetIndex.load(files, "/i", 0, 100).entries() == [(1, 10), (2, 20)]

    @pytest.mark.parametrize(
        "content",
        [
            KAFKA_OFFSET_INDEX[:-1],
            KAFKA_OFFSET_INDEX + bytes(8),
            bytes(8),
            bytes(16),
            KAFKA_OFFSET_INDEX[8:] + KAFKA_OFFSET_INDEX[:8],
            KAFKA_OFFSET_INDEX[:8] * 2,
            b"\xff" * 8,
            KAFKA_OFFSET_INDEX[:16] + bytes.fromhex("0000024f7fffffff"),
        ],
    )
    def test_corrupt(self, files: Files, directory: str, content: bytes) -> None:
        files.write_atomically(f"{directory}/i", content)
        with pytest.raises(CorruptFileError):
            OffsetIndex.load(files, f"{directory}/i", 0, 65108)


class TestTimeIndex:
    def test_kafkas_bytes(self, files: Files, directory: str) -> None:
        path = f"{directory}/t"
        index = TimeIndex(files, path, 0)
        index.append(1794779379914, 295)
        index.write()
        assert files.read_whole(path) == KAFKA_TIME_INDEX
        index.append(1794779379928, 443)
        index.write()
        assert files.read_whole(path).startswith(KAFKA_TIME_INDEX)
        assert TimeIndex.load(files, path, 0).entries() == index.entries()

    def test_only_later_times_are_entered(self) -> None:
        index = TimeIndex(MemoryFiles(), "/t", 0)
        for timestamp, offset in ((-1, 0), (10, 1), (10, 2), (9, 3), (11, 4)):
            index.append(timestamp, offset)
        assert index.entries() == [(10, 1), (11, 4)]

    def test_lookup(self) -> None:
        index = TimeIndex(MemoryFiles(), "/t", 100)
        assert index.lookup(5) == index.last() == (-1, 100)
        index.append(10, 110)
        index.append(20, 120)
        assert [index.lookup(at) for at in (9, 10, 19, 20, 99)] == [
            (-1, 100),
            (10, 110),
            (10, 110),
            (20, 120),
            (20, 120),
        ]
        assert index.last() == (20, 120)
        assert len(index) == 2

    def test_cut(self, files: Files, directory: str) -> None:
        index = TimeIndex(files, f"{directory}/t", 0)
        for at in range(10):
            index.append(at * 10, at)
        index.write()
        index.truncate(5)
        assert index.last() == (40, 4)
        index.write()
        assert TimeIndex.load(files, f"{directory}/t", 0).entries() == index.entries()

    @pytest.mark.parametrize(
        "content",
        [
            KAFKA_TIME_INDEX[:-1],
            KAFKA_TIME_INDEX + bytes(12),
            KAFKA_TIME_INDEX * 2,
            b"\xff" * 12,
        ],
    )
    def test_corrupt(self, files: Files, directory: str, content: bytes) -> None:
        files.write_atomically(f"{directory}/t", content)
        with pytest.raises(CorruptFileError):
            TimeIndex.load(files, f"{directory}/t", 0)
