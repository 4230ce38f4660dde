"""Batches that are runs of one job: each number writes once, whoever tries it again."""

from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest

from moldau.spark.options import ClusterOptions, WriteOptions
from moldau.spark.write import writers
from moldau.spark.write.writers import TopicWriter, numbered
from moldau.testing import Broker


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    task = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, getLocalProperty=lambda name: None)
    monkeypatch.setattr(writers, "TaskContext", SimpleNamespace(get=lambda: task))
    with Broker() as running:
        running.create_topic("out")
        yield running


def write(broker: Broker, job: str, *values: bytes, commits: bool = True) -> None:
    """What Spark does with a batch write of one task; a driver that dies does not commit."""
    options = WriteOptions(ClusterOptions(broker.bootstrap_servers), "out", exactly_once=True, job_id=job)
    writer = TopicWriter(options, ("value",))
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])
    written = writer.write(iter([batch]))
    if commits:
        writer.commit([written])


def read(broker: Broker) -> list[bytes]:
    """What is committed, as a plain client sees it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("out", 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(message.value() or b"")
    consumer.close()
    return found


def test_a_number_is_written_once(broker: Broker) -> None:
    write(broker, "p-counts#0", b"a")
    write(broker, "p-counts#1", b"b", commits=False)
    write(broker, "p-counts#1", b"b")
    write(broker, "p-counts#1", b"again")
    write(broker, "p-counts#0", b"long ago")
    write(broker, "p-other#0", b"other")
    assert read(broker) == [b"a", b"b", b"other"]


def test_a_job_without_a_number_runs_once(broker: Broker) -> None:
    write(broker, "nightly", b"a")
    write(broker, "nightly", b"again")
    assert read(broker) == [b"a"]


@pytest.mark.parametrize(
    ("job_id", "found"),
    [("a#7", ("a", 7)), ("a", ("a", 0)), ("a#b", ("a#b", 0)), ("a#b#3", ("a#b", 3)), ("#1", ("", 1))],
)
def test_numbers(job_id: str, found: tuple[str, int]) -> None:
    assert numbered(job_id) == found
