"""Scenarios about what is in a record and how it is produced."""

import random
import time

from moldau.protocol.records import batches
from moldau.testing import Broker
from tests.integration.client_contract import (
    DEFAULT_PRODUCING,
    Client,
    Producing,
    Received,
    Refused,
    Sent,
    offsets,
    values,
)
from tests.integration.scenario_table import needing, scenario

MEGABYTE = 1024 * 1024


def round_trip(
    client: Client, topic: str, records: list[Sent], how: Producing = DEFAULT_PRODUCING
) -> list[Received]:
    """Produces to partition 0 and reads everything back; the offsets are those that were acknowledged."""
    producer = client.producer(how)
    for record in records:
        producer.send(topic, record)
    acknowledged = producer.flush()
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    found = consumer.poll(len(records))
    assert offsets(found) == acknowledged == list(range(len(records)))
    return found


def codecs_in_log(broker: Broker, topic: str) -> set[str]:
    """The codecs of the batches as the broker keeps them."""

    async def look() -> set[str]:
        log = broker.node.replicas.find(topic, 0).leading_log()
        found = log.read(0, 1 << 30, log.log_end_offset, at_least_one=True)
        assert found is not None
        return {header.compression.name.lower() for _, header in batches(found.read())}

    return broker.run(look())


def compressed_round_trip(client: Client, broker: Broker, topic: str, codec: str) -> None:
    """Small, large and incompressible records; the broker keeps what it was sent."""
    client.create_topic(topic)
    noise = random.Random(7).randbytes(60_000)
    sent = [Sent(b"again and again " * 100, b"key %d" % n) for n in range(200)]
    sent += [Sent(noise), Sent(None, b"k"), Sent(b""), Sent(bytes(300_000), headers=[("h", b"1")])]
    found = round_trip(client, topic, sent, Producing(compression=codec, linger_ms=20))
    assert [(each.value, each.key) for each in found] == [(each.value, each.key) for each in sent]
    # A client may send a batch as it is when compressing would make it larger.
    assert codec in codecs_in_log(broker, topic) <= {codec, "none"}


def recompressed_by_the_broker(client: Client, broker: Broker, topic: str, codec: str) -> None:
    """A topic that asks for a codec of its own gets it, and its clients read what they sent."""
    asked = "uncompressed" if codec == "none" else codec
    client.create_topic(topic, configs={"compression.type": asked})
    sent = [Sent(b"again and again " * 50, b"%d" % n, [("n", b"%d" % n)]) for n in range(100)]
    for how in (Producing(linger_ms=20), Producing(compression="gzip", linger_ms=20)):
        producer = client.producer(how)
        for record in sent:
            producer.send(topic, record)
        producer.flush()
    assert codecs_in_log(broker, topic) == {codec}
    assert [record.value for record in broker.records(topic)] == [record.value for record in sent] * 2
    if codec in {"none", *client.codecs}:
        consumer = client.consumer()
        consumer.assign(topic, {0: 0})
        found = [(each.value, each.key, each.headers) for each in consumer.poll(200)]
        assert found == [(each.value, each.key, tuple(each.headers)) for each in sent] * 2


@scenario
def produce_and_consume_by_assignment(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    producer = client.producer(Producing(linger_ms=5))
    for number in range(300):
        producer.send(topic, Sent(b"value %d" % number, b"key %d" % number), partition=number % 3)
    acknowledged = producer.flush()
    assert acknowledged == [number // 3 for number in range(300)]
    consumer = client.consumer()
    consumer.assign(topic, {0: 0, 1: 0, 2: 0})
    found = consumer.poll(300)
    for partition in range(3):
        of_partition = [record for record in found if record.partition == partition]
        assert offsets(of_partition) == list(range(100))
        assert values(of_partition) == [b"value %d" % number for number in range(partition, 300, 3)]
        assert [each.key for each in of_partition] == [b"key %d" % n for n in range(partition, 300, 3)]


@scenario
def headers_in_every_shape(client: Client, topic: str) -> None:
    client.create_topic(topic)
    shapes: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        (("one", b"1"),),
        (("same", b"first"), ("same", b"second"), ("other", b"x"), ("same", b"third")),
        (("empty", b""), ("null", None)),
        (("", b"a header without a name"),),
        (("Größe", bytes(range(256))),),
        tuple((f"name {n}", b"%d" % n) for n in range(200)),
    ]
    if "null_header" in client.lacks:
        shapes = [tuple((name, value or b"") for name, value in shape) for shape in shapes]
    found = round_trip(client, topic, [Sent(b"v", headers=shape) for shape in shapes])
    assert [record.headers for record in found] == shapes


@scenario
def null_and_empty_keys_and_values(client: Client, topic: str) -> None:
    client.create_topic(topic)
    pairs = [(key, value) for key in (None, b"", b"key") for value in (None, b"", b"value")]
    if "null_key_and_value" in client.lacks:
        pairs.remove((None, None))
    found = round_trip(client, topic, [Sent(value, key) for key, value in pairs])
    assert [(record.key, record.value) for record in found] == pairs


@scenario
def every_byte_survives(client: Client, topic: str) -> None:
    client.create_topic(topic)
    sizes = [1, 127, 128, 8191, 16384, 100_000]
    sent = [
        Sent(bytes(range(256)) * (size // 256) + bytes(size % 256), bytes([size % 256])) for size in sizes
    ]
    found = round_trip(client, topic, sent)
    assert [(record.key, record.value) for record in found] == [(each.key, each.value) for each in sent]


@scenario
def create_time_is_the_producers(client: Client, topic: str) -> None:
    client.create_topic(topic)
    moments = [1_500_000_000_000, 1_500_000_000_001, 1, 1_600_000_000_000]
    found = round_trip(client, topic, [Sent(b"v", timestamp_ms=moment) for moment in moments])
    assert [(record.timestamp_ms, record.timestamp_type) for record in found] == [(m, 0) for m in moments]


@scenario
def create_time_is_now_unless_given(client: Client, topic: str) -> None:
    client.create_topic(topic)
    before = int(time.time() * 1000) - 1
    (found,) = round_trip(client, topic, [Sent(b"v")])
    assert before <= found.timestamp_ms <= int(time.time() * 1000) + 1


@scenario
def log_append_time_is_the_brokers(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000) - 1
    found = round_trip(client, topic, [Sent(b"v", timestamp_ms=1_500_000_000_000 + n) for n in range(3)])
    for record in found:
        assert record.timestamp_type == 1
        assert before <= record.timestamp_ms <= int(time.time() * 1000) + 1


@scenario
def log_append_time_in_compressed_batches(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    sent = [Sent(b"v" * 100, timestamp_ms=1_500_000_000_000) for _ in range(50)]
    found = round_trip(client, topic, sent, Producing(compression="gzip", linger_ms=20))
    assert {record.timestamp_type for record in found} == {1}
    assert min(record.timestamp_ms for record in found) > 1_500_000_000_000


@scenario
def acks_of_every_kind(client: Client, topic: str) -> None:
    client.create_topic(topic)
    for acks in (1, "all"):
        producer = client.producer(Producing(acks=acks, idempotent=False))
        producer.send(topic, Sent(f"acks {acks}".encode()))
        assert producer.flush() == [0 if acks == 1 else 1]
    producer = client.producer(Producing(acks=0, idempotent=False))
    for number in range(20):
        producer.send(topic, Sent(b"acks 0 #%d" % number))
    producer.flush()
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(22)) == [
        b"acks 1",
        b"acks all",
        *(b"acks 0 #%d" % number for number in range(20)),
    ]


@scenario
def idempotence_on_and_off(client: Client, topic: str) -> None:
    client.create_topic(topic)
    wanted = []
    for idempotent in (True, False, True):
        producer = client.producer(Producing(idempotent=idempotent))
        for number in range(50):
            wanted.append(b"%d %d" % (idempotent, number))
            producer.send(topic, Sent(wanted[-1]))
            if number % 10 == 0:
                producer.flush()
        producer.flush()
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(150)) == wanted


@scenario
def a_topic_that_is_not_there_is_created(client: Client, topic: str) -> None:
    producer = client.producer()
    producer.send(topic, Sent(b"first"), partition=None)
    assert producer.flush() == [0]
    assert client.topics()[topic] == 1
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(1)) == [b"first"]


@scenario
def ten_megabytes_where_the_topic_allows_it(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"max.message.bytes": str(11 * MEGABYTE)})
    big = bytes(range(256)) * (10 * MEGABYTE // 256)
    found = round_trip(
        client,
        topic,
        [Sent(big), Sent(b"small"), Sent(big[::-1])],
        Producing(max_request_bytes=12 * MEGABYTE),
    )
    assert [len(value or b"") for value in values(found)] == [len(big), 5, len(big)]
    assert values(found)[0] == big
    assert values(found)[2] == big[::-1]


@scenario
def ten_megabytes_where_it_does_not(client: Client, topic: str) -> None:
    client.create_topic(topic)
    producer = client.producer(Producing(max_request_bytes=12 * MEGABYTE, idempotent=False))
    producer.send(topic, Sent(bytes(10 * MEGABYTE)))
    (outcome,) = producer.flush()
    assert isinstance(outcome, Refused)
    assert outcome.name == "MESSAGE_TOO_LARGE"
    producer.send(topic, Sent(b"small"))
    assert producer.flush() == [0]


@needing("alter_configs")
def the_limit_can_be_raised_while_it_runs(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"max.message.bytes": "1000"})
    producer = client.producer(Producing(idempotent=False))
    producer.send(topic, Sent(bytes(5000)))
    (refused,) = producer.flush()
    assert isinstance(refused, Refused)
    client.alter_configs(topic, {"max.message.bytes": "10000"})
    producer.send(topic, Sent(bytes(5000)))
    assert producer.flush() == [0]


@scenario
def many_partitions(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=60)
    producer = client.producer(Producing(linger_ms=5))
    for number in range(300):
        producer.send(topic, Sent(b"%d" % number), partition=number % 60)
    assert producer.flush() == [number // 60 for number in range(300)]
    consumer = client.consumer()
    consumer.assign(topic, dict.fromkeys(range(60), 0))
    found = consumer.poll(300)
    assert sorted(int(value or b"") for value in values(found)) == list(range(300))
    for partition in range(60):
        assert offsets([each for each in found if each.partition == partition]) == list(range(5))
