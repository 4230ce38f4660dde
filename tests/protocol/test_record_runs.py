"""Runs of records of one shape: how far they go, and that a single wrong byte ends them.

``test_record_checks`` compares the whole check, runs included, with a slow one.
"""

import pytest

from moldau.protocol.payload import append_record
from moldau.protocol.record_runs import BELOW_CLAIM, SHORTEST_RUN, equal_records

Headers = tuple[tuple[str, bytes | None], ...]


def records(count: int, *, step: int = 0, size: int = 80, headers: Headers = (), first: int = 0) -> bytes:
    buffer = bytearray()
    for index in range(count):
        append_record(buffer, step * index, first + index, b"key", bytes(size), headers)
    return bytes(buffer)


def test_a_run_ends_where_offset_deltas_get_longer() -> None:
    data = records(100)
    count, end, lowest, highest = equal_records(data, 0, 0, 100, 0)
    assert (count, lowest, highest) == (64, 0, 0)
    assert equal_records(data, end, 64, 36, 0)[:2] == (36, len(data))


def test_a_short_run_is_not_worth_it() -> None:
    assert equal_records(records(SHORTEST_RUN), 0, 0, SHORTEST_RUN, 0)[0] == SHORTEST_RUN
    assert equal_records(records(SHORTEST_RUN - 1), 0, 0, 100, 0)[0] == 0
    assert equal_records(records(20) + records(1, size=7, first=20), 0, 0, 21, 0)[0] == 20
    assert equal_records(b"", 0, 0, 10, 0)[0] == 0


@pytest.mark.parametrize(
    ("step", "claim", "span"),
    [
        (1, 29, (0, 29)),
        (1, 30, (0, BELOW_CLAIM)),
        (1, 28, (0, 29)),
        (1, 1000, (0, 29)),
        (-1, 0, (-29, 0)),
    ],
)
def test_timestamps(step: int, claim: int, span: tuple[int, int | None]) -> None:
    assert equal_records(records(30, step=step), 0, 0, 30, claim)[2:] == span


def test_timestamps_of_several_bytes() -> None:
    buffer = bytearray()
    for index in range(40):
        append_record(buffer, (1000, 7000, -5000)[index % 3], index, None, b"v", ())
    assert equal_records(bytes(buffer), 0, 0, 40, 7000) == (40, len(buffer), -5000, 7000)


def test_headers() -> None:
    few: Headers = (("trace", b"x" * 70), ("none", None))
    data = records(20, headers=few)
    assert equal_records(data, 0, 0, 20, 0)[:2] == (20, len(data))
    assert equal_records(records(20, headers=few * 5), 0, 0, 20, 0)[0] == 0


@pytest.mark.parametrize("place", [0, 1, 3, 4, 5, 9, 10, -1])
def test_one_wrong_byte(place: int) -> None:
    """Both bytes of the length, the deltas, the lengths of key and value, the number of headers."""
    data = bytearray(records(20))
    size = len(data) // 20
    record = size * 12
    data[record + place if place >= 0 else record + size - 1] ^= 128
    assert equal_records(bytes(data), 0, 0, 20, 0)[0] < 13
