"""The same programs in Java Kafka Streams 4.3 and in ours, on the same topics, compared record by record."""

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import apache_kafka, streams_programs
from benchmarks.apache_kafka import ApacheKafka
from benchmarks.moldau_broker import MoldauBroker
from moldau.streams.runner.application import StreamsOptions, start
from moldau.streams.runner.programs import Program

PARTITIONS = 2
ROWS = 3_000
_PATIENCE_SECONDS = 180.0

Record = tuple[bytes, bytes | None, int]


@pytest.fixture(scope="module", params=["moldau", "kafka"])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    apache_kafka.compile_sources()
    kind = MoldauBroker if request.param == "moldau" else ApacheKafka
    with kind(tmp_path_factory.mktemp("data")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in ("in", "table")]).values():
            made.result(60)
        _fill(broker.bootstrap_servers)
        yield broker.bootstrap_servers


def _fill(servers: str) -> None:
    dice = random.Random(5)
    first_ms = int(time.time() * 1000) - 3_600_000  # of today: retention removes what is old
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for number in range(40):
        producer.produce("table", number.to_bytes(8, "big"), f"key-{number}", timestamp=first_ms)
    for number in range(ROWS):
        late = dice.choice((0, 0, 0, 300, 3_000, 8_000))
        time_ms = first_ms + number * 20 - late
        producer.produce("in", number.to_bytes(8, "big"), f"key-{dice.randrange(50)}", timestamp=time_ms)
    assert producer.flush(60) == 0


@pytest.mark.check(
    "Kafka Streams 4.3.0",
    "a program with exactly_once_v2, on Moldau or on Apache Kafka: the same records as moldau streams gives",
)
@pytest.mark.parametrize("program", ["count", "total", "hopping", "join", "sessions"])
def test_results_are_those_of_kafka_streams(servers: str, program: str, spark: Any, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [f"java-{program}", f"ours-{program}"]
    for made in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics]).values():
        made.result(60)
    text = Path(streams_programs.__file__).read_text().replace('"out"', f'"ours-{program}"')
    ours = Program(f"{program}.py", text=f"{text}\ntopology = PROGRAMS[{program!r}]()\n")
    with start(
        ours, f"ours-{program}", spark, tmp_path, StreamsOptions(servers), availableNow=True
    ) as running:
        assert running.query is not None
        running.query.awaitTermination()
    expected = _records(servers, f"ours-{program}")
    assert sum(map(len, expected.values())) > 0
    with tempfile.TemporaryDirectory() as state:
        arguments = [servers, program, f"java-{program}", "exactly_once_v2", state, f"java-{program}"]
        java = subprocess.Popen(apache_kafka.java("StreamsPrograms", *arguments))
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            found = _records(servers, f"java-{program}")
            while sum(map(len, found.values())) < sum(map(len, expected.values())):
                assert java.poll() is None
                assert time.monotonic() < deadline, f"{found.keys()}"
                found = _records(servers, f"java-{program}")
        finally:
            java.terminate()
            java.wait(60)
    assert found == expected


def _records(servers: str, topic: str) -> dict[int, list[Record]]:
    """Committed records by partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "compare",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: dict[int, list[Record]] = {}
    try:
        for partition in range(PARTITIONS):
            rows = found[partition] = []
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (message := consumer.poll(60)) is not None and not message.error():
                rows.append((message.key(), message.value(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found
