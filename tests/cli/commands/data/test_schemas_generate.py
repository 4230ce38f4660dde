"""``moldau schemas generate``: what it writes compiles, and means the schema that it came from."""

import dataclasses
import json
import sys
import types
import typing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from moldau.cli.commands.data.schemas_generate import module_text
from moldau.client.registry.schema_registry import RegistryClient
from moldau.registry.schemas import SchemaType, parse
from moldau.serde.avro_models import avro_schema_of

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": 'An order, """quoted""" \\ and all.',
    "fields": [
        {"name": "id", "type": "long", "doc": "The number\nof the order."},
        {"name": "count", "type": "int", "default": 3},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "share", "type": "float", "default": 0.5},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "more", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}},
        {"name": "before", "type": "Status", "default": "NEW"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "other", "type": "Hash", "aliases": ["second"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
    ],
}
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Customer",
    "type": "object",
    "required": ["name", "home"],
    "properties": {
        "name": {"type": "string", "description": "As on the door."},
        "first-name": {"type": "string"},
        "age": {"type": ["integer", "null"]},
        "home": {"$ref": "#/definitions/Address"},
        "others": {"type": "array", "items": {"$ref": "#/definitions/Address"}},
        "kind": {"enum": ["a", "b"]},
        "class": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": {},
        "friend": {"$ref": "#"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "definitions": {"Address": {"type": "object", "properties": {"street": {"type": "string"}}}},
}
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku = 1; int32 count = 2; }
  enum Status { NEW = 0; DONE = 1; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  Status status = 4;
  optional string note = 5;
  oneof paid { string card = 6; double cash = 7; }
  google.protobuf.Timestamp at = 8;
  Order from = 9;
}
"""


def generated(schema_type, text, plain=False):
    """The module that is made of a schema, loaded."""
    schema = parse(schema_type, text)
    code = module_text("orders-value", 1, schema, plain)
    module = types.ModuleType("generated_by_a_test")
    sys.modules[module.__name__] = module
    exec(compile(code, "generated", "exec"), module.__dict__)
    return module, code


def hints(cls):
    return typing.get_type_hints(cls, include_extras=True)


def test_avro_there_and_back():
    module, code = generated(SchemaType.AVRO, json.dumps(ORDER))
    assert "An order" in code
    again = json.loads(avro_schema_of(module.Order))
    fields = {each["name"]: each for each in again["fields"]}
    assert (again["name"], again["namespace"]) == ("Order", "shop")
    for each in ORDER["fields"]:
        assert fields[each["name"]].get("default", "-") == each.get("default", "-"), each
    assert fields["count"]["type"] == "int"
    assert fields["hash"]["type"] == {"type": "fixed", "name": "shop.Hash", "size": 2}
    assert fields["other"]["type"] == "shop.Hash"
    assert fields["other"]["aliases"] == ["second"]
    assert fields["price"]["type"] == ORDER["fields"][2]["type"]
    assert fields["day"]["type"] == {"type": "int", "logicalType": "date"}
    # The registry sees no difference that would break anybody, either way round.
    from moldau.registry.rules.compatibility import Level, incompatibilities

    new = parse(SchemaType.AVRO, json.dumps(again))
    assert incompatibilities(Level.FULL, new, [parse(SchemaType.AVRO, json.dumps(ORDER))]) == []


def test_avro_plain_needs_nothing_of_ours():
    module, code = generated(SchemaType.AVRO, json.dumps(ORDER), plain=True)
    assert "import" in code
    assert "moldau.serde" not in code
    assert hints(module.Order)["count"] is int


def test_defaults_of_logical_types():
    def field(name, base, logical, default, **more):
        return {"name": name, "type": {"type": base, "logicalType": logical, **more}, "default": default}

    schema = {
        "type": "record",
        "name": "T",
        "fields": [
            field("a", "long", "timestamp-millis", 86_400_001),
            field("b", "int", "date", 1),
            field("c", "int", "time-millis", 3_723_004),
            field("d", "string", "uuid", "00000000-0000-0000-0000-000000000001"),
            field("e", "bytes", "decimal", "\u0001\u0000", precision=5, scale=2),
            field("f", "long", "local-timestamp-micros", 5),
            {"name": "g", "type": "bytes", "default": "\u00ff"},
            {"name": "h", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {
                "name": "i",
                "type": {"type": "record", "name": "U", "fields": [{"name": "from", "type": "string"}]},
                "default": {"from": "x"},
            },
            {"name": "j", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
        ],
    }
    made = generated(SchemaType.AVRO, json.dumps(schema))[0].T()
    assert made.a == datetime(1970, 1, 2, 0, 0, 0, 1000, UTC)
    assert made.b == date(1970, 1, 2)
    assert made.c == time(1, 2, 3, 4000)
    assert made.d == UUID(int=1)
    assert made.e == Decimal("2.56")
    assert made.f == datetime(1970, 1, 1, 0, 0, 0, 5)
    assert (made.g, made.h, made.i.from_, made.j) == (b"\xff", [1, 2], "x", {"k": 1})


def test_json_schema():
    module, code = generated(SchemaType.JSON, json.dumps(JSON_SCHEMA))
    found = hints(module.Customer)
    assert found["name"] is str
    assert found["first_name"] == str | None
    assert found["age"] == int | None
    assert found["home"] is module.Address
    assert found["others"] == list[module.Address] | None
    assert found["kind"] == typing.Literal["a", "b"] | None
    assert found["labels"] == dict[str, bool] | None
    assert found["friend"] == module.Customer | None
    assert found["either"] == str | int | None
    assert "class_" in found
    assert "'first-name' in the schema" in code
    made = module.Customer(name="Ann", home=module.Address())
    assert dataclasses.asdict(made)["age"] is None


def test_protobuf():
    module, _ = generated(SchemaType.PROTOBUF, PROTO)
    made = module.Order()
    assert (made.id, made.lines, made.by_name, made.note, made.card, made.at) == (0, [], {}, None, None, None)
    assert made.status is module.OrderStatus.NEW
    found = hints(module.Order)
    assert found["lines"] == list[module.OrderLine]
    assert found["by_name"] == dict[str, module.OrderLine]
    assert found["from_"] == module.Order | None
    assert found["at"] == datetime | None


def test_names_that_would_be_code_stay_names():
    nasty = {"type": "object", "properties": {'x: int = __import__("os")  #\n': {"type": "string"}}}
    nasty["title"] = "A:\n    pass\nimport os\nclass B"
    nasty["description"] = '"""\nimport os\n"""'
    module, _ = generated(SchemaType.JSON, json.dumps(nasty))
    assert not hasattr(module, "os")


def test_the_command(registry, moldau, tmp_path):
    with RegistryClient(registry) as client:
        client.register("orders-value", json.dumps(ORDER))
    file = tmp_path / "order.py"
    assert moldau("schemas", "generate", "orders-value").stdout.startswith('"""Version 1 of orders-value')
    assert "wrote" in moldau("schemas", "generate", "orders-value", "-o", str(file)).stdout
    assert "--force" in moldau("schemas", "generate", "orders-value", "-o", str(file), code=1).stderr
    compile(file.read_text(), str(file), "exec")
    assert "40401" in moldau("schemas", "generate", "nobody", code=1).stderr


@pytest.fixture(autouse=True)
def _forget_modules():
    yield
    sys.modules.pop("generated_by_a_test", None)
