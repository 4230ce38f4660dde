"""Typed rows without Spark: schemas registered on a real registry, rows encoded, and what is refused."""

import json
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.client.registry.schema_registry import RegistryClient
from moldau.spark.options import ClusterOptions, OptionError, WriteOptions
from moldau.spark.typed.formats import FORMATS
from moldau.spark.typed.options import RegistryOptions, SideOptions, TypedOptions
from moldau.spark.typed.registry import SchemaText
from moldau.spark.typed.write import WritePlan, plan_writing

_numbers = count()
ROWS = pa.table({"key": ["a", None], "id": [1, 2], "note": ["x", None]})


class Target:
    def __init__(self, registry: str) -> None:
        self.topic = f"t-{next(_numbers)}"
        self.registry = registry
        self.client = RegistryClient(registry)

    def plan(self, kind: str | None, rows: pa.Table = ROWS, **value: Any) -> WritePlan:
        options = TypedOptions(
            SideOptions("key", "string" if "key" in rows.column_names else None),
            SideOptions("value", kind, **value),
            RegistryOptions(self.registry),
        )
        made = plan_writing(options, WriteOptions(ClusterOptions("x:1"), self.topic), rows.schema)
        assert made is not None
        return made

    def encoded(self, kind: str | None, rows: pa.Table = ROWS, **value: Any) -> pa.RecordBatch:
        return self.plan(kind, rows, **value).encoding().batch(rows.to_batches()[0])


@pytest.fixture
def target(registry: str) -> Target:
    return Target(registry)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_rows_by_the_schema_that_was_registered(target: Target, kind: str) -> None:
    found = target.encoded(kind)
    assert found.schema.names == ["key", "value"]
    assert found.column(0).to_pylist() == ["a", None]
    schema = target.client.version(f"{target.topic}-value")
    assert schema.schema_type == kind.upper()
    reader = FORMATS[kind].decoder(SchemaText(schema.text), None, RegistryOptions(target.registry))
    values, reasons = reader.decode(found.column(1))
    assert (values.to_pylist(), reasons) == ([{"id": 1, "note": "x"}, {"id": 2, "note": None}], {})
    # The same again is the same version; a column more is a version more.
    target.encoded(kind)
    target.encoded(kind, ROWS.append_column("more", pa.array([1.5, 2.5])))
    assert target.client.versions(f"{target.topic}-value") == [1, 2]
    if kind == "json":
        # A closed JSON Schema cannot lose a property: values that have it would not be read any more.
        with pytest.raises(OptionError, match="PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"):
            target.encoded(kind, ROWS.drop_columns(["note"]))
    else:
        target.encoded(kind, ROWS.drop_columns(["note"]))


def test_json_is_read_by_confluents_deserializer(target: Target) -> None:
    value = target.encoded("json").column(1)[0].as_py()
    client = SchemaRegistryClient({"url": target.registry})
    read = JSONDeserializer(None, schema_registry_client=client)
    assert read(value, SerializationContext(target.topic, MessageField.VALUE)) == {"id": 1, "note": "x"}


def test_a_struct_column_and_tombstones(target: Target) -> None:
    rows = pa.table({"key": ["a", "b"], "value": pa.array([{"x": 1}, None])})
    found = target.encoded("avro", rows)
    assert found.column("value")[1].as_py() is None
    assert json.loads(target.client.version(f"{target.topic}-value").text)["fields"][0]["name"] == "x"
    text = plan_writing(
        TypedOptions(value=SideOptions("value", "string")),
        WriteOptions(ClusterOptions("x:1"), "t"),
        pa.schema([("value", pa.int64())]),
    )
    assert text is not None
    batch = text.encoding().batch(pa.record_batch({"value": [5, None]}))
    assert batch.column("value").to_pylist() == ["5", None]


def test_schemas_that_are_named(target: Target) -> None:
    note = {"name": "note", "type": ["null", "string"]}
    own = json.dumps({"type": "record", "name": "Own", "fields": [{"name": "id", "type": "long"}, note]})
    target.encoded("avro", schema=own)
    assert json.loads(target.client.version(f"{target.topic}-value").text)["name"] == "Own"
    # Without a format the subject says it, and the names of the version before are kept.
    target.encoded(None)
    newest = json.loads(target.client.version(f"{target.topic}-value").text)
    assert newest["name"] == "Own"
    again = target.plan("avro", version=1)
    assert again.value.schema == SchemaText(target.client.version(f"{target.topic}-value", 1).text)
    nulls = pa.table(
        {"id": [None, 1], "note": ["a", "b"]}, pa.schema([("id", pa.int64()), ("note", pa.string())])
    )
    with pytest.raises(OptionError, match="id is null in a row, and its schema does not allow that"):
        target.encoded("avro", nulls, version=1)


def test_what_is_refused(target: Target) -> None:
    target.encoded("avro")
    with pytest.raises(OptionError, match="registry refuses the schema of this DataFrame") as refused:
        target.encoded("avro", ROWS.set_column(1, "id", pa.array(["a", "b"])))
    assert "errorType" in str(refused.value)
    assert "oldSchema" not in str(refused.value)
    with pytest.raises(OptionError, match="has no version 9 of the subject"):
        target.plan("avro", version=9)
    with pytest.raises(OptionError, match="holds AVRO schemas, not json"):
        target.plan("json", version=1)
    with pytest.raises(OptionError, match=r"has no schema yet: set value\.format"):
        Target(target.registry).plan(None)
    with pytest.raises(OptionError, match="no column is left for the value"):
        target.plan("avro", ROWS.select(["key"]))
    with pytest.raises(OptionError, match="cannot be written as protobuf: it is int64"):
        target.plan("protobuf", pa.table({"value": [1]}))
    with pytest.raises(OptionError, match="cannot be written as string: it is struct"):
        target.plan("string")
    nowhere = WriteOptions(ClusterOptions("x:1"))
    typed = TypedOptions(value=SideOptions("value", "avro"), registry=RegistryOptions(target.registry))
    with pytest.raises(OptionError, match="no topic to write to"):
        plan_writing(typed, nowhere, ROWS.schema)
    with pytest.raises(OptionError, match=r"name the schema's subject with value\.subject"):
        plan_writing(typed, nowhere, ROWS.append_column("topic", pa.array(["a", "b"])).schema)
