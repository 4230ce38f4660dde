"""Walking a segment past damage: every byte exactly once, and no whole batch lost."""

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.inspection.walk import DamagedRange, IntactBatch, ReadOnlyFile, walk
from moldau.protocol.records import Record, encode_batch


def segment(count: int = 12, base_offset: int = 0) -> list[bytes]:
    """Batches of two records each."""
    made = []
    for at in range(count):
        first = base_offset + 2 * at
        records = [Record(first + i, 1000 + at, b"k", b"\2" * (5 + at), ()) for i in range(2)]
        made.append(bytes(encode_batch(records, base_offset=first)))
    return made


def walked(
    path: Path, content: bytes, base_offset: int = 0, *, contents: bool = True
) -> list[IntactBatch | DamagedRange]:
    path.write_bytes(content)
    with ReadOnlyFile(path) as file:
        found = list(walk(file, base_offset, contents=contents))
    position = 0
    for each in found:
        assert each.position == position
        position += each.header.size if isinstance(each, IntactBatch) else each.size
    assert position == len(content)
    return found


def test_a_sound_segment(tmp_path: Path) -> None:
    batches = segment()
    for contents in (True, False):
        found = walked(tmp_path / "log", b"".join(batches), contents=contents)
        assert [each.header.base_offset for each in found if isinstance(each, IntactBatch)] == list(
            range(0, 24, 2)
        )
        assert len(found) == 12
    assert walked(tmp_path / "log", b"") == []


def test_a_flipped_byte_costs_one_batch(tmp_path: Path) -> None:
    batches = segment()
    content = bytearray(b"".join(batches))
    start = len(b"".join(batches[:5]))
    for at in range(len(batches[5])):
        flipped = bytearray(content)
        flipped[start + at] ^= 0x55
        found = walked(tmp_path / "log", bytes(flipped))
        damage = [each for each in found if isinstance(each, DamagedRange)]
        # The checksum covers neither the leader epoch nor the offset, but the next offset gives it away.
        if 12 <= at < 16:
            assert not damage
            continue
        (bad,) = damage
        assert (bad.position, bad.size, bad.offset) == (start, len(batches[5]), 10)
        assert bad.next_offset == 12


def test_a_torn_end_and_zeros(tmp_path: Path) -> None:
    batches = segment(4)
    *whole, bad = walked(tmp_path / "log", b"".join(batches)[:-3])
    assert len(whole) == 3
    assert isinstance(bad, DamagedRange)
    assert bad.next_offset is None
    assert "where" in bad.reason
    *whole, bad = walked(tmp_path / "log", b"".join(batches) + bytes(500))
    assert isinstance(bad, DamagedRange)
    assert (len(whole), bad.size, bad.offset, bad.reason) == (4, 500, 8, "zeros where a batch should begin")


def test_bytes_in_between(tmp_path: Path) -> None:
    """Not even a length is left: the next batch is looked for byte by byte."""
    batches = segment(6)
    for noise in (b"\2" * 1000, b"x" * 7, bytes(61), batches[0], bytes(range(256)) * 20):
        content = b"".join(batches[:3]) + noise + b"".join(batches[3:])
        found = walked(tmp_path / "log", content)
        (bad,) = (each for each in found if isinstance(each, DamagedRange))
        assert (bad.size, bad.next_offset) == (len(noise), 6)
        assert len(found) == 7


def test_offsets_of_the_next_segment_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(segment(4)))
    with ReadOnlyFile(path) as file:
        *whole, bad = walk(file, 0, 6)
    assert isinstance(bad, DamagedRange)
    assert len(whole) == 3
    assert "must end before 6" in bad.reason


def test_messages_of_the_old_format_are_not_damage(tmp_path: Path) -> None:
    body = b"\1\0" + bytes(8) + b"\xff\xff\xff\xff" + b"\0\0\0\3abc"
    message = b"".join(
        (bytes(8), (len(body) + 4).to_bytes(4, "big"), zlib.crc32(body).to_bytes(4, "big"), body)
    )
    found = walked(tmp_path / "log", message * 3 + b"".join(segment(1, 9)))
    assert isinstance(found[0], DamagedRange)
    assert found[0].is_old_format
    assert found[0].size == 3 * len(message)
    assert isinstance(found[1], IntactBatch)


def test_only_headers_are_read_unless_asked(tmp_path: Path) -> None:
    content = bytearray(b"".join(segment(3)))
    content[-1] ^= 1  # inside the last record
    assert all(
        isinstance(each, IntactBatch) for each in walked(tmp_path / "log", bytes(content), contents=False)
    )


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_whatever_happens_to_a_file(tmp_path: Path, data: st.DataObject) -> None:
    """All bytes are accounted for, and batches that were not touched are found again."""
    batches = segment(8)
    content = bytearray(b"".join(batches))
    change: Callable[[bytearray], None] = data.draw(st.sampled_from([_overwrite, _cut, _insert]))(
        data, content
    )
    change(content)
    untouched = {batch for batch in batches if batch in bytes(content)}
    found = walked(tmp_path / "log", bytes(content))
    kept = {bytes(each.data) for each in found if isinstance(each, IntactBatch)}
    # Where two batches share a byte after a cut, one of them is lost.
    assert len(untouched - kept) <= 1


def _overwrite(data: st.DataObject, content: bytearray) -> Callable[[bytearray], None]:
    at = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=120))

    def change(content: bytearray) -> None:
        content[at : at + len(noise)] = noise[: len(content) - at]

    return change


def _cut(data: st.DataObject, content: bytearray) -> Callable[[bytearray], None]:
    first = data.draw(st.integers(0, len(content) - 1))
    size = data.draw(st.integers(1, 200))

    def change(content: bytearray) -> None:
        del content[first : first + size]

    return change


def _insert(data: st.DataObject, content: bytearray) -> Callable[[bytearray], None]:
    at = data.draw(st.integers(0, len(content)))
    noise = data.draw(st.binary(min_size=1, max_size=200))

    def change(content: bytearray) -> None:
        content[at:at] = noise

    return change
