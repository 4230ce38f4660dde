"""Confluent's Java client and Avro serializers 7.9.5 (ConfluentSmoke.java), our registry and our broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from benchmarks.moldau_broker import MoldauBroker
from benchmarks.registry import process
from moldau.registry.rules.compatibility import Level, conflicts
from moldau.registry.schemas import SchemaType, parse
from moldau.serde.avro import AvroDeserializer, AvroSerializer
from tests.conformance import confluent_client
from tests.conformance.avro_pairs import laid_out, pairs

CLIENT = "Confluent's Java client 7.9.5"
SERIALIZERS = "Confluent's Avro serializers for Java 7.9.5"
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
ORDERS = [{"id": number, "note": None if number % 2 == 0 else f"水 {number}"} for number in range(100)]


@pytest.fixture(scope="module")
def registry(moldau: MoldauBroker) -> Iterator[str]:
    confluent_client.compile_source()
    arguments = ("registry", "--port", "0", "--bootstrap-servers", moldau.bootstrap_servers)
    with process(*arguments) as (_, line):
        yield line.split()[3]


STEPS = {
    "client": "registers, looks up, compares, sets levels, deletes; errors with their codes",
    "references": "schemas that refer to others",
    "contracts": "metadata and rule sets come back as they were, and make no new version",
}


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=pytest.mark.check(CLIENT, what)) for step, what in STEPS.items()]
)
def test_client(step: str, registry: str, moldau: MoldauBroker) -> None:
    ran = confluent_client.run(registry, moldau.bootstrap_servers, step)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stderr


@pytest.mark.check(SERIALIZERS, "what they wrote is read by moldau.serde")
def test_java_writes_and_we_read(registry: str, moldau: MoldauBroker) -> None:
    ran = confluent_client.run(registry, moldau.bootstrap_servers, "write", "java-orders")
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stderr
    settings = {
        "bootstrap.servers": moldau.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["java-orders"])
    read = AvroDeserializer(registry)
    messages = [consumer.poll(30) for _ in ORDERS]
    consumer.close()
    assert [read.deserialize("java-orders", each.value()) for each in messages if each is not None] == ORDERS


@pytest.mark.check(SERIALIZERS, "what moldau.serde wrote is read by them")
def test_we_write_and_java_reads(registry: str, moldau: MoldauBroker) -> None:
    write = AvroSerializer(registry, ORDER)
    producer = Producer({"bootstrap.servers": moldau.bootstrap_servers})
    for order in ORDERS:
        producer.produce("python-orders", write.serialize("python-orders", order))
    assert producer.flush(30) == 0
    ran = confluent_client.run(registry, moldau.bootstrap_servers, "read", "python-orders")
    assert ran.returncode == 0, ran.stderr
    notes = ["null" if order["note"] is None else f'"{order["note"]}"' for order in ORDERS]
    expected = [
        f'shop.Order{{"id": {order["id"]}, "note": {note}}}'
        for order, note in zip(ORDERS, notes, strict=True)
    ]
    assert ran.stdout.splitlines() == expected


@pytest.mark.check(
    CLIENT, "its verdicts on 2,000 random pairs of Avro schemas are ours, and nearly all its words"
)
def test_verdicts() -> None:
    confluent_client.compile_source()
    levels = (Level.BACKWARD, Level.FORWARD, Level.FULL)
    cases = [(levels[at % 3], *pair) for at, pair in enumerate(pairs(2_000, seed=20))]
    asked = "".join(f"{level}\t{old.text}\t{new.text}\n" for level, old, new in cases)
    ran = confluent_client.run("-", "-", "verdicts", stdin=asked)
    assert ran.returncode == 0, ran.stderr
    told = [line.split("\t") if line else [] for line in ran.stdout.split("\n")[: len(cases)]]
    ours = [conflicts(level, new, old) for level, old, new in cases]
    other = [
        (level, old.text, new.text, here, there)
        for (level, old, new), here, there in zip(cases, ours, told, strict=True)
        if bool(here) != bool(there)
    ]
    assert other == []
    assert 200 < sum(bool(each) for each in ours) < 1_800, "there are both kinds"
    same = sum(here == there[: len(here)] for here, there in zip(ours, told, strict=True))
    assert same > 1_900, "the rest are fields with two meanings and missing enums, which are said otherwise"


@pytest.mark.check(CLIENT, "1,000 random Avro schemas are stored, and normalized, with its very bytes")
def test_texts() -> None:
    confluent_client.compile_source()
    given = laid_out(1_000, seed=5)
    ran = confluent_client.run("-", "-", "texts", stdin="".join(f"{text}\n" for text in given))
    assert ran.returncode == 0, ran.stderr
    parsed = [parse(SchemaType.AVRO, text) for text in given]
    assert [tuple(line.split("\t")) for line in ran.stdout.splitlines()] == [
        (each.text, each.normalized) for each in parsed
    ]
