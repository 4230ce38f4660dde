"""What the JVM asks for in the metadata of a schema."""

from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from moldau.spark.jvm.shared_columns import Asked, asked

WANTED = StructType([StructField("value", BinaryType()), StructField("offset", LongType(), False)])


def notes(*filters: str) -> StructType:
    """As Spark hands it over."""
    told = {"columns": WANTED.json(), "filters": list(filters)}
    return StructType([StructField("__moldau_shared", BinaryType(), False, told)])


def test_a_schema_is_what_it_is() -> None:
    assert asked(WANTED) == Asked(WANTED)
    one = StructType([StructField("value", BinaryType())])
    assert asked(one) == Asked(one)


def test_a_note_asks_for_columns() -> None:
    assert asked(notes()) == Asked(WANTED, shared=True)


def test_filters_are_sparks_own() -> None:
    told = notes(
        "EqualTo\tpartition\t3",
        "In\tpartition\t1\t2",
        "GreaterThan\toffset\t-5",
        "LessThanOrEqual\ttimestamp\tT1700000000000001",
    )
    assert asked(told).filters == (
        EqualTo(("partition",), 3),
        In(("partition",), (1, 2)),
        GreaterThan(("offset",), -5),
        LessThanOrEqual(("timestamp",), datetime(2023, 11, 14, 22, 13, 20, 1, UTC)),
    )


def test_a_time_that_python_does_not_know_narrows_nothing() -> None:
    assert asked(notes("GreaterThan\ttimestamp\tT9223372036854775807", "EqualTo\toffset\t1")).filters == (
        EqualTo(("offset",), 1),
    )
