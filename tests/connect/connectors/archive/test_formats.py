"""Files of an archive give back what was put into them."""

import datetime
from decimal import Decimal

import pytest

from moldau.connect.connectors.archive.formats import Kept, files_of, kinds, read, write
from moldau.connect.data.schema import Schema, Struct, array, date, decimal, map_of, struct, time, timestamp
from moldau.connect.data.types import Instant, Type
from moldau.connect.records import Header

INNER = struct({"x": Schema(Type.FLOAT32)}, name="Inner", optional=True)
SCHEMA = struct(
    {
        "i": Schema(Type.INT8),
        "s": Schema(Type.STRING, optional=True),
        "b": Schema(Type.BYTES, optional=True),
        "d": decimal(3, optional=True),
        "day": date(),
        "t": time(),
        "at": timestamp(),
        "list": array(Schema(Type.INT64, optional=True)),
        "map": map_of(Schema(Type.STRING), Schema(Type.BOOLEAN)),
        "in": INNER,
    },
    name="Row",
    version=2,
)
MOMENT = datetime.datetime(2024, 2, 29, 12, 0, 1, 5000, tzinfo=datetime.UTC)
VALUE = Struct(
    SCHEMA,
    {
        "i": -128,
        "s": "ä€😀",
        "b": b"\0\xff",
        "d": Decimal("-1.500"),
        "day": MOMENT.date(),
        "t": MOMENT.time(),
        "at": MOMENT,
        "list": [1, None],
        "map": {"k": True},
        "in": Struct(INNER, {"x": 0.5}),
    },
)
HEADERS = (Header("h", Schema(Type.STRING), "text"), Header("n", None, None))
TYPED = [
    Kept("t", 0, 5, 1000, Schema(Type.STRING), "k", SCHEMA, VALUE, HEADERS),
    Kept("t", 0, 6, None, None, None, None, None, ()),
]
JSON = [Kept("t", 0, 7, 1, None, {"id": 1}, None, {"a": [1, "x", None], "b": {"c": 1.5}}, ())]
RAW = [
    Kept("t", 0, 8, 1, Schema(Type.BYTES, optional=True), b"k", Schema(Type.BYTES, optional=True), b"\0", ())
]


@pytest.mark.parametrize("kind", kinds())
@pytest.mark.parametrize("records", [TYPED, JSON, RAW], ids=["typed", "json", "raw"])
def test_what_is_written_is_read(kind: str, records: list[Kept]) -> None:
    found = list(read(kind, write(kind, records)))
    for got, expected in zip(found, records, strict=True):
        assert got.headers == tuple(
            Header(h.key, None if h.value is None else Schema(Type.STRING), h.value) for h in expected.headers
        )
        assert got._replace(headers=()) == expected._replace(headers=())
    if records is TYPED:
        assert isinstance(found[0].value, Struct)
        assert isinstance(found[0].value.get("at"), Instant)


def test_a_file_has_one_schema_and_nulls_need_none() -> None:
    other = Kept("t", 0, 9, 1, None, None, Schema(Type.STRING), "x", ())
    pieces = list(files_of([*TYPED, other, *TYPED[1:], other]))
    assert [len(piece) for piece in pieces] == [2, 3]
