"""Schemas, structs, and which values belong to which schema."""

import datetime
from decimal import Decimal

import pytest

from moldau.connect.data.schema import (
    Schema,
    Struct,
    array,
    date,
    decimal,
    map_of,
    struct,
    timestamp,
)
from moldau.connect.data.types import Float32, Instant, Int8, Int32, Int64, Type
from moldau.connect.errors import DataException, SchemaBuilderException

PERSON = struct(
    {
        "id": Schema(Type.INT32),
        "name": Schema(Type.STRING, optional=True),
        "age": Schema(Type.INT8, default=Int8(7)),
    },
    name="Person",
)


def test_plain_numbers_get_the_width_of_the_schema() -> None:
    person = Struct(PERSON, {"id": 5})
    assert type(person.get("id")) is Int32
    with pytest.raises(DataException, match=r"with type INT8: class java\.lang\.Long"):
        person.put("age", 300)
    with pytest.raises(DataException, match=r'class java\.lang\.Long for field: "id"'):
        person.put("id", Int64(5))


def test_dates_of_python_are_taken() -> None:
    schema = struct({"day": date(), "at": timestamp()})
    made = Struct(schema, {"day": datetime.date(1970, 1, 2), "at": datetime.datetime(1970, 1, 1, 0, 0, 1)})
    assert made.get("day") == Instant(86_400_000)
    assert made.get("at") == Instant(1000)


def test_a_field_without_a_value_reads_as_its_default() -> None:
    person = Struct(PERSON, {"id": 1})
    assert person.get("age") == 7
    assert person.get_without_default("age") is None
    person.validate()


def test_null_is_only_for_optional_fields() -> None:
    person = Struct(PERSON)
    person.put("name", None)
    message = 'Invalid value: null used for required field: "id", schema type: INT32'
    with pytest.raises(DataException, match=message):
        person.put("id", None)
    with pytest.raises(DataException, match=message):
        person.validate()


def test_messages_say_where_inside_of_lists_and_maps() -> None:
    made = Struct(struct({"l": array(Schema(Type.STRING)), "m": map_of(Schema(Type.STRING), PERSON)}))
    with pytest.raises(DataException, match=r'class java\.lang\.Boolean for element of array field: "l"'):
        made.put("l", ["a", True])
    with pytest.raises(DataException, match=r'class java\.lang\.String for value of map field: "m"'):
        made.put("m", {"a": "b"})
    with pytest.raises(DataException, match=r"Struct schemas do not match\."):
        made.put("m", {"a": Struct(struct({}))})


def test_bad_schemas() -> None:
    with pytest.raises(SchemaBuilderException, match="because of field name duplication a"):
        struct([("a", PERSON), ("a", PERSON)])
    with pytest.raises(SchemaBuilderException, match="Invalid default value"):
        Schema(Type.INT32, default="x")
    with pytest.raises(SchemaBuilderException, match=r"valueSchema cannot be null\."):
        array(None)
    with pytest.raises(DataException, match="Cannot list fields on non-struct type"):
        _ = Schema(Type.INT32).fields
    with pytest.raises(DataException, match=r"Not a struct schema: Schema\{INT32\}"):
        Struct(Schema(Type.INT32))
    with pytest.raises(DataException, match="nope is not a valid field name"):
        Struct(PERSON).get("nope")


def test_equal_schemas_are_one_key() -> None:
    again = struct(
        {
            "id": Schema(Type.INT32),
            "name": Schema(Type.STRING, optional=True),
            "age": Schema(Type.INT8, default=Int8(7)),
        },
        name="Person",
    )
    assert again == PERSON
    assert len({again, PERSON}) == 1
    assert again.described_as(name="Other") != PERSON
    assert str(PERSON) == "Schema{Person:STRUCT}"


def test_a_struct_may_be_the_default_of_its_schema() -> None:
    inner = struct({"x": Schema(Type.INT32)})
    made = Schema(Type.STRUCT, fields=[("x", Schema(Type.INT32))], default=Struct(inner, {"x": 1}))
    assert isinstance(made.default, Struct)


def test_decimals_and_single_floats() -> None:
    made = Struct(struct({"d": decimal(2), "f": Schema(Type.FLOAT32)}), {"d": Decimal("1.50"), "f": 1.1})
    assert type(made.get("f")) is Float32
    with pytest.raises(DataException, match=r'data.Decimal" with type BYTES'):
        made.put("d", 1.5)
    with pytest.raises(DataException):
        made.put("f", 1e300)


def test_taking_a_field_of_another_struct_is_reading_and_putting_it() -> None:
    """Whatever the two fields are, errors included."""
    inner = struct({"x": Schema(Type.INT32)})
    schemas = [
        Schema(Type.INT32),
        Schema(Type.INT32, optional=True),
        Schema(Type.INT32, default=3),
        Schema(Type.INT32, optional=True, default=3),
        Schema(Type.INT64, optional=True),
        Schema(Type.STRING, optional=True),
        inner,
    ]
    values = {
        Type.INT32: (None, Int32(7)),
        Type.INT64: (None, Int64(7)),
        Type.STRING: (None, "text"),
        Type.STRUCT: (None, Struct(inner), Struct(inner, {"x": 1})),
    }
    for old in schemas:
        source = Struct(struct({"a": old}))
        for value in values[old.type]:
            source.set_unchecked(source.schema.fields[0], value)
            for new in schemas:
                for replace_null in (True, False):
                    taken, put = (_outcome(new, source, replace_null, takes) for takes in (True, False))
                    assert taken == put, (old, new, value)


def _outcome(schema: Schema, source: Struct, replace_null: bool, takes: bool) -> object:
    made = Struct(struct({"b": schema}))
    try:
        if takes:
            made.take("b", source, "a", replace_null)
        else:
            made.put("b", source.read("a", replace_null))
    except DataException as error:
        return error.message
    return made
