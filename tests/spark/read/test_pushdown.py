from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from moldau.spark.read.pushdown import Bounds, bounds_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Bounds()),
        ([EqualTo(("partition",), 3)], Bounds(partitions=frozenset({3}))),
        (
            [In(("partition",), (1, 2)), In(("partition",), (2, 3))],
            Bounds(partitions=frozenset({2})),
        ),
        ([EqualTo(("offset",), 5)], Bounds(first_offset=5, end_offset=6)),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 9)], Bounds(first_offset=6, end_offset=9)),
        (
            [GreaterThanOrEqual(("offset",), 5), LessThanOrEqual(("offset",), 9)],
            Bounds(first_offset=5, end_offset=10),
        ),
        ([GreaterThan(("timestamp",), NOON)], Bounds(since_ms=1767268800000)),
        # Records may come out of order: an upper bound says nothing of offsets.
        ([LessThan(("timestamp",), NOON)], Bounds()),
        ([StringContains(("topic",), "x"), EqualTo(("headers", "key"), 1)], Bounds()),
    ],
)
def test_what_filters_leave(filters: list[object], expected: Bounds) -> None:
    assert bounds_of(filters) == expected
    assert expected.narrow == (expected != Bounds())
