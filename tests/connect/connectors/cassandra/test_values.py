"""Values of Connect for columns of Cassandra."""

import datetime
from decimal import Decimal
from uuid import UUID

import pytest

from moldau.connect.connectors.cassandra.values import split_types, type_of, written
from moldau.connect.data.schema import Schema, Struct, array, date, decimal, map_of, struct, time, timestamp
from moldau.connect.data.types import Instant, Int8, Type
from moldau.connect.errors import DataException

TEXT = Schema(Type.STRING)


@pytest.mark.parametrize(
    ("schema", "value", "kind"),
    [
        (Schema(Type.INT8), 1, "tinyint"),
        (Schema(Type.FLOAT32), 1.0, "float"),
        (Schema(Type.BYTES), b"", "blob"),
        (decimal(2), Decimal(1), "decimal"),
        (date(), None, "date"),
        (time(), None, "time"),
        (timestamp(), None, "timestamp"),
        (array(TEXT), None, "list<text>"),
        (map_of(TEXT, array(Schema(Type.INT64))), None, "map<text, frozen<list<bigint>>>"),
        (struct({"a": TEXT}), None, "text"),
        (None, 5, "bigint"),
        (None, True, "boolean"),
        (None, {"a": 1}, "text"),
        (None, None, "text"),
    ],
)
def test_types_of_new_columns(schema: Schema | None, value: object, kind: str) -> None:
    assert type_of(schema, value) == kind


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("int", Int8(7), 7),
        ("varint", 1 << 90, 1 << 90),
        ("double", 2, 2.0),
        ("decimal", 1.5, Decimal("1.5")),
        ("text", {"a": [1, None]}, '{"a":[1,null]}'),
        ("text", Struct(struct({"a": TEXT}), {"a": "b"}), '{"a":"b"}'),
        ("blob", memoryview(b"x"), b"x"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", UUID(int=10)),
        ("inet", "::1", "::1"),
        ("timestamp", Instant(5), 5),
        ("timestamp", 1_700_000_000_000, 1_700_000_000_000),
        ("timestamp", "2024-01-01T00:00:00", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        ("date", Instant(86_400_000), datetime.date(1970, 1, 2)),
        ("time", Instant(1), 1_000_000),
        ("time", "00:00:01", 1_000_000_000),
        ("frozen<list<int>>", [1, 2], [1, 2]),
        ("set<text>", ["a", "a"], {"a"}),
        ("map<text, frozen<map<text, int>>>", {"a": {"b": 1}}, {"a": {"b": 1}}),
        ("tuple<int, text>", [1, "a"], (1, "a")),
        ("int", None, None),
    ],
)
def test_values(kind: str, value: object, wanted: object) -> None:
    assert written(kind, value) == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1 << 31),
        ("int", True),
        ("int", "1"),
        ("int", 1.0),
        ("tinyint", 128),
        ("text", 5),
        ("ascii", "ä"),
        ("boolean", 1),
        ("double", "1"),
        ("float", 1e300),
        ("set<frozen<list<int>>>", [[1]]),
        ("decimal", "a lot"),
        ("decimal", float("nan")),
        ("blob", "text"),
        ("uuid", "no"),
        ("timeuuid", "00000000-0000-4000-8000-00000000000a"),
        ("inet", "localhost"),
        ("timestamp", "yesterday"),
        ("date", 5),
        ("time", Instant(-1)),
        ("list<int>", 5),
        ("list<text>", ["a", None]),
        ("map<text, int>", {"a": None}),
        ("tuple<int, int>", [1]),
        ("map<text, int>", [1]),
        ("counter", 1),
        ("duration", "1d"),
    ],
)
def test_what_does_not_fit(kind: str, value: object) -> None:
    with pytest.raises(DataException) as caught:
        written(kind, value)
    assert "yesterday" not in str(caught.value)


def test_types_in_types() -> None:
    assert split_types("text, frozen<map<int, text>>,int") == ["text", "frozen<map<int, text>>", "int"]
