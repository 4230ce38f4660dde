"""The table of a topic at a time: the last record of each key, however the records come."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.spark.options import OptionError, read_options
from moldau.spark.read.as_of import last_of_keys
from moldau.spark.read.columns import Columns
from moldau.spark.times import parse_time

Row = tuple[bytes | None, bytes | None]


def piece(first: int, rows: list[Row]) -> Columns:
    count = len(rows)
    return Columns(
        first + count,
        pa.array(range(first, first + count), pa.int64()),
        pa.array([1000] * count, pa.int64()),
        pa.array([0] * count, pa.int32()),
        pa.array([key for key, _ in rows], pa.binary()),
        pa.array([value for _, value in rows], pa.binary()),
        None,
    )


keys = st.none() | st.sampled_from([b"", b"a", b"b", b"c"])
values = st.none() | st.binary(max_size=2)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(keys, values), max_size=6), max_size=4))
def test_the_last_of_each_key(batches: list[list[Row]]) -> None:
    expected: dict[bytes, tuple[int, bytes | None]] = {}
    pieces, offset = [], 0
    for batch in batches:
        pieces.append(piece(offset, batch))
        for key, value in batch:
            if key is not None:
                expected[key] = offset, value
            offset += 1
    found = last_of_keys(pieces)
    rows = [] if found is None else list(zip(found.key.to_pylist(), found.offset.to_pylist(), strict=True))
    assert rows == sorted(
        [(key, at) for key, (at, value) in expected.items() if value is not None], key=lambda row: row[1]
    )


def test_stretches_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.spark.read.as_of._STRETCH", 2)
    found = last_of_keys(piece(at, [(b"%d" % (at % 3), b"x")]) for at in range(10))
    assert found is not None
    assert found.offset.to_pylist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("given_time", "expected"),
    [
        (5, 5),
        ("1767225600000", 1767225600000),
        ("2026-01-01T00:00:00Z", 1767225600000),
        ("2026-01-01", 1767225600000),
        (datetime(2026, 1, 1), 1767225600000),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 1767225600000),
        (datetime(2026, 1, 1, tzinfo=UTC), 1767225600000),
    ],
)
def test_times(given_time: datetime | str | int, expected: int) -> None:
    assert parse_time(given_time) == expected


def test_what_does_not_go_together() -> None:
    given_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "asOf": "5"}
    assert read_options(given_options).as_of_ms == 5
    with pytest.raises(OptionError, match="no meaning for a stream"):
        read_options(given_options, streaming=True)
    with pytest.raises(OptionError, match="leave out startingOffsets"):
        read_options({**given_options, "startingOffsets": "earliest"})
    with pytest.raises(OptionError, match="'yesterday' is no time"):
        read_options({**given_options, "asOf": "yesterday"})
