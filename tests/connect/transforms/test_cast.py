"""Cast in the strict mode refuses what Kafka bends."""

import pytest

from moldau.connect.compatibility import Compatibility
from moldau.connect.data.schema import Schema, Struct, struct, timestamp
from moldau.connect.data.types import Float64, Instant, Int32, Type
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SourceRecord
from moldau.connect.transforms.base import Side
from moldau.connect.transforms.cast import Cast


def cast(spec: str, value: object, schema: Schema | None = None, kafka: bool = False) -> SourceRecord:
    mode = Compatibility.KAFKA if kafka else Compatibility.STRICT
    record = SourceRecord(topic="t", value_schema=schema, value=value)
    return Cast(Side.VALUE, {"spec": spec}, mode).apply(record)


@pytest.mark.parametrize(
    ("spec", "value", "like_kafka"),
    [
        ("int8", Int32(300), 44),
        ("int32", Float64("nan"), 0),
        ("int64", Float64("inf"), 2**63 - 1),
        ("boolean", "maybe", False),
    ],
)
def test_values_that_do_not_fit(spec: str, value: object, like_kafka: object) -> None:
    assert cast(spec, value, kafka=True).value == like_kafka
    with pytest.raises(DataException, match="was out of range for requested data type"):
        cast(spec, value)


def test_a_logical_name_goes_with_its_type() -> None:
    assert cast("string", Instant(0), timestamp()).value_schema == Schema(Type.STRING)
    kept = cast("string", Instant(0), timestamp(), kafka=True).value_schema
    assert kept is not None
    assert kept.name == "org.apache.kafka.connect.data.Timestamp"


def test_the_default_of_a_struct_is_cast_too() -> None:
    fields = {"q": Schema(Type.INT32)}
    schema = struct(fields, default=Struct(struct(fields), {"q": 4}))
    value = Struct(schema, {"q": 5})
    made = cast("q:string", value, schema).value_schema
    assert made is not None
    assert isinstance(made.default, Struct)
    assert made.default.get("q") == "4"
    with pytest.raises(DataException, match="does not support casting from STRUCT"):
        cast("q:string", value, schema, kafka=True)


def test_types_that_are_not_known() -> None:
    for spec in ("int128", "a:int128"):
        with pytest.raises(ConfigException, match=r"No enum constant .* found in casting spec: int128"):
            cast(spec, 1)
