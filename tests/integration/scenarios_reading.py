"""Scenarios about where a consumer reads."""

import threading

import pytest

from tests.integration.client_contract import (
    SILENCE_SECONDS,
    Client,
    Consuming,
    Producing,
    Refused,
    Sent,
    offsets,
    values,
)
from tests.integration.scenario_table import needing, scenario


def fill(client: Client, topic: str, count: int, *, size: int = 10, partition: int = 0) -> list[bytes]:
    """So many records, a few to a batch."""
    producer = client.producer(Producing(linger_ms=0))
    sent = [b"%d" % number + b"." * size for number in range(count)]
    for number, value in enumerate(sent):
        producer.send(topic, Sent(value, timestamp_ms=1_000_000 + 10 * number), partition=partition)
        if number % 7 == 6:
            producer.flush()
    producer.flush()
    return sent


@scenario
def seek_to_any_offset(client: Client, topic: str) -> None:
    client.create_topic(topic)
    sent = fill(client, topic, 50)
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    assert offsets(consumer.poll(3)) == [0, 1, 2]
    for target in (49, 0, 20, 33, 6, 7):
        consumer.seek(topic, 0, target)
        assert values(consumer.poll(1)) == [sent[target]]


@scenario
def beginning_and_end(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    fill(client, topic, 20)
    client.delete_records(topic, 0, 5)
    consumer = client.consumer()
    consumer.assign(topic, {0: 5, 1: 0})
    assert consumer.ends(topic, 0) == (5, 20)
    assert consumer.ends(topic, 1) == (0, 0)


@scenario
def offsets_for_times(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, 30)  # record n at 1,000,000 + 10 n
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    for moment, offset in [(0, 0), (1_000_000, 0), (1_000_001, 1), (1_000_145, 15), (1_000_290, 29)]:
        assert consumer.offset_for_time(topic, 0, moment) == offset
    assert consumer.offset_for_time(topic, 0, 1_000_291) is None


@scenario
def pause_and_resume(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    consumer = client.consumer()
    consumer.assign(topic, {0: 0, 1: 0})
    consumer.pause(topic, 0)
    fill(client, topic, 5, partition=0)
    fill(client, topic, 5, partition=1)
    found = consumer.poll(5)
    assert {record.partition for record in found} == {1}
    assert consumer.poll(1, SILENCE_SECONDS) == []
    consumer.resume(topic, 0)
    found = consumer.poll(5)
    assert {record.partition for record in found} == {0}
    assert offsets(found) == [0, 1, 2, 3, 4]


@scenario
def a_waiting_consumer_gets_what_comes(client: Client, topic: str) -> None:
    client.create_topic(topic)
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    found = []
    waiting = threading.Thread(target=lambda: found.extend(consumer.poll(3)))
    waiting.start()
    producer = client.producer()
    for number in range(3):
        producer.send(topic, Sent(b"%d" % number))
        producer.flush()
    waiting.join()
    assert values(found) == [b"0", b"1", b"2"]


@scenario
def fetches_smaller_than_a_record(client: Client, topic: str) -> None:
    client.create_topic(topic)
    sent = fill(client, topic, 15, size=20_000)
    consumer = client.consumer(Consuming(max_partition_fetch_bytes=1000))
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(15)) == sent


@scenario
def read_committed_is_accepted(client: Client, topic: str) -> None:
    client.create_topic(topic)
    sent = fill(client, topic, 10)
    consumer = client.consumer(Consuming(read_committed=True))
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(10)) == sent
    assert consumer.ends(topic, 0) == (0, 10)


@scenario
def out_of_range_is_an_error_or_a_reset(client: Client, topic: str) -> None:
    client.create_topic(topic)
    fill(client, topic, 10)
    client.delete_records(topic, 0, 4)
    consumer = client.consumer(Consuming(on_reset="earliest"))
    consumer.assign(topic, {0: 0})
    assert offsets(consumer.poll(6)) == [4, 5, 6, 7, 8, 9]
    consumer.seek(topic, 0, 1000)
    assert offsets(consumer.poll(6)) == [4, 5, 6, 7, 8, 9]
    strict = client.consumer(Consuming(on_reset="none"))
    strict.assign(topic, {0: 2})
    with pytest.raises(Refused):
        strict.poll(1)


@needing("list_offset")
def list_offsets_of_every_kind(client: Client, topic: str) -> None:
    client.create_topic(topic)
    producer = client.producer()
    for moment in (100, 300, 200):
        producer.send(topic, Sent(b"v", timestamp_ms=moment))
    producer.flush()
    client.delete_records(topic, 0, 1)
    asked = ("earliest", "latest", "max_timestamp", 150, 250)
    assert [client.list_offset(topic, 0, what) for what in asked] == [1, 3, 1, 1, 1]
    assert client.list_offset(topic, 0, 301) == -1
