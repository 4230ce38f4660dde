"""Typed encode and decode per second, beside confluent-kafka's serializers: ``python -m benchmarks.serde``.

Invariant: the same schemas, the same values and the same process for both, in rounds that take turns, so
that what else the machine does weighs on both alike; the best round of each counts. Both talk to a registry
that is a table in memory: after the first record neither asks it again.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool

from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient
from moldau.serde.avro import AvroDeserializer, AvroSerializer
from moldau.serde.json_schema import JsonDeserializer, JsonSerializer
from moldau.serde.protobuf import ProtobufDeserializer, ProtobufSerializer

TARGET = 1.5
CONTEXT = SerializationContext("orders", MessageField.VALUE)
FLAT = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "value", "type": "double"},
        {"name": "good", "type": "boolean"},
    ],
}
FLAT_VALUE = {"sensor": "north-17", "at": 1_700_000_000_123, "value": 21.5, "good": True}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "quantity", "type": "int"},
        {"name": "price", "type": "double"},
    ],
}
NESTED = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SENT"]}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}
NESTED_VALUE = {
    "id": 123_456_789,
    "customer": "Ann Müller",
    "note": "leave it at the door",
    "status": "PAID",
    "placed": 1_700_000_000_123,
    "lines": [{"sku": f"sku-{n}", "quantity": n, "price": 1.25 * n} for n in range(1, 4)],
    "tags": {"channel": "web", "country": "at"},
}
JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "status": {"enum": ["NEW", "PAID", "SENT"]},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
                "required": ["sku"],
            },
        },
    },
    "required": ["id", "customer"],
}


class _InMemory(RegistryClient):
    """One schema, which is always there."""

    def __init__(self, schema_type: str, text: str, descriptor: str = "") -> None:
        super().__init__("http://unused")
        self._schema = RegisteredSchema(1, schema_type, text)
        self._descriptor = descriptor

    def by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        return self._schema

    def register(self, *_: Any, **__: Any) -> int:
        return 1

    def call(self, method: str, path: str, body: object = None) -> Any:
        return {"schema": self._descriptor}


def order_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="customer", number=2, type=9, label=1)
    order.field.add(name="lines", number=3, type=11, label=3, type_name=".shop.Order.Line")
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=9, label=1)
    line.field.add(name="quantity", number=2, type=5, label=1)
    pool = DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def rate(work: Callable[[Any, Any], Any], argument: Any, seconds: float) -> float:
    """Calls in a second."""
    count, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        for _ in range(200):
            work(argument, CONTEXT)
        count += 200
    return count / passed


def alternating(
    ours: Any, theirs: Any, mine: Any, other: Any, rounds: int, seconds: float
) -> dict[str, float]:
    best = {"moldau": 0.0, "confluent_kafka": 0.0}
    for _ in range(rounds):
        best["moldau"] = max(best["moldau"], rate(ours, mine, seconds))
        best["confluent_kafka"] = max(best["confluent_kafka"], rate(theirs, other, seconds))
    return best


def cases() -> dict[str, tuple[Any, Any, Any, Any, Any]]:
    """Name -> our serializer and deserializer, theirs, and the value."""
    found: dict[str, tuple[Any, Any, Any, Any, Any]] = {}
    for name, schema, value in (("avro flat", FLAT, FLAT_VALUE), ("avro nested", NESTED, NESTED_VALUE)):
        text = json.dumps(schema)
        mine, client = _InMemory("AVRO", text), SchemaRegistryClient.new_client({"url": "mock://"})
        found[name] = (
            AvroSerializer(mine, text),
            AvroDeserializer(mine),
            TheirAvroSerializer(client, text),
            TheirAvroDeserializer(client),
            value,
        )
    text = json.dumps(JSON_SCHEMA)
    mine, client = _InMemory("JSON", text), SchemaRegistryClient.new_client({"url": "mock://"})
    wanted = {name: NESTED_VALUE[name] for name in ("id", "customer", "status", "lines")}
    found["json"] = (
        JsonSerializer(mine, text),
        JsonDeserializer(mine),
        JSONSerializer(text, client),
        JSONDeserializer(text, schema_registry_client=client),
        wanted,
    )
    cls = order_class()
    lines = [{"sku": "sku-1", "quantity": 2}, {"sku": "sku-2", "quantity": 3}]
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    theirs = TheirProtobufSerializer(cls, client)
    mine = _InMemory("PROTOBUF", "", theirs._schema.schema_str)
    found["protobuf"] = (
        ProtobufSerializer(mine, cls),
        ProtobufDeserializer(mine, cls),
        theirs,
        TheirProtobufDeserializer(cls, schema_registry_client=client),
        cls(id=5, customer="Ann", lines=lines),
    )
    return found


def measured(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}
    for name, (write, read, their_write, their_read, value) in cases().items():
        mine, other = write(value, CONTEXT), their_write(value, CONTEXT)
        assert read(mine, CONTEXT) == their_read(other, CONTEXT)
        for step, ours, theirs, argument, their_argument in (
            ("encode", write, their_write, value, value),
            ("decode", read, their_read, mine, other),
        ):
            found = alternating(ours, theirs, argument, their_argument, rounds, seconds)
            found["ratio"] = found["moldau"] / found["confluent_kafka"]
            results[f"{name} {step}"] = found
            print(
                f"{name + ' ' + step:22} {found['moldau']:>11,.0f}/s   confluent-kafka "
                f"{found['confluent_kafka']:>9,.0f}/s   {found['ratio']:.2f}x",
                flush=True,
            )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each round")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    results = measured(options.rounds, options.seconds)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    worst = min(found["ratio"] for name, found in results.items() if name.startswith("avro"))
    print(f"Avro at its worst {worst:.2f}x; the target is {TARGET}x")
    return 0 if worst >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
