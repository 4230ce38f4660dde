"""A broker in a process that may open few files: more partitions than that work, connections are turned away
in time, and whoever is connected notices nothing.
"""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.integration.broker_process import BrokerProcess
from tests.shared.waiting import wait_until

LIMIT = 256
PARTITIONS = 300
NOW = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, open_files=LIMIT) as running:
        yield running


def create(wire: Wire, name: str, partitions: int) -> int:
    return int(
        wire.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000), 7).topics[0].error_code
    )


def produce(wire: Wire, partition: int) -> int:
    answer = wire.ask(
        produce_request("wide", batch(b"%d" % partition, timestamp=NOW), partition=partition), 9
    )
    return int(answer.responses[0].partition_responses[0].error_code)


def high_watermarks(wire: Wire) -> list[int]:
    """Of all partitions, with the records of all of them in one answer."""
    asked = [
        FetchPartition(number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(PARTITIONS)
    ]
    answer = wire.ask(
        FetchRequest(min_bytes=1, max_bytes=1 << 26, topics=[FetchTopic("wide", partitions=asked)]), 12
    )
    found = answer.responses[0].partitions
    assert all(each.error_code == 0 and len(each.records) > 60 for each in found)
    return [each.high_watermark for each in found]


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


@pytest.mark.slow
def test_more_partitions_than_descriptors(broker: BrokerProcess) -> None:
    for life in range(1, 3):
        with closing(Wire(broker.port)) as wire:
            if life == 1:
                assert create(wire, "wide", PARTITIONS) == 0
            assert [produce(wire, number) for number in range(PARTITIONS)] == [0] * PARTITIONS
            assert high_watermarks(wire) == [life] * PARTITIONS
            assert descriptors(broker) < LIMIT * 3 / 4
            assert create(wire, f"another-{life}", 1) == 0
        assert broker.stop() == 0
        broker.start()
    with closing(Wire(broker.port)) as wire:
        assert high_watermarks(wire) == [2] * PARTITIONS
    assert "ERROR" not in broker.log


@pytest.mark.slow
def test_topics_that_nobody_created(broker: BrokerProcess) -> None:
    """1,500 unknown names in one request: some are created, the broker stays as it is, and starts again."""
    names = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(1500)]
    for _ in range(2):
        with closing(Wire(broker.port)) as wire:
            answer = wire.ask(MetadataRequest(names, allow_auto_topic_creation=True), 9)
            codes = [topic.error_code for topic in answer.topics]
            missing = codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert missing + codes.count(0) == 1500
        assert missing >= 1300
        assert broker.stop() == 0
        broker.start()
    with closing(Wire(broker.port)) as wire:
        assert create(wire, "one-more", 3) == 0
    assert "ERROR" not in broker.log


def test_too_many_connections(broker: BrokerProcess) -> None:
    """The first ones go on, further ones are turned away, and when some end there is room again."""
    with closing(Wire(broker.port)) as first:
        opened = [socket.create_connection(("127.0.0.1", broker.port), timeout=10) for _ in range(LIMIT)]
        wait_until(lambda: "all that the limit of open files allows" in broker.log)
        assert create(first, "t", 4) == 0
        assert descriptors(broker) < LIMIT
        for each in opened:
            each.close()
        wait_until(lambda: "welcome again" in broker.log)
        wait_until(lambda: descriptors(broker) < LIMIT / 2)
        with closing(Wire(broker.port)) as other:
            assert create(other, "u", 4) == 0
    assert broker.log.count("all that the limit of open files allows") <= 2
    assert "Traceback" not in broker.log


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are Linux's")
def test_no_descriptor_at_all(broker: BrokerProcess) -> None:
    """Who is connected is answered, nobody is let in, and when it is over all is as before."""
    with closing(Wire(broker.port)) as wire:
        assert create(wire, "wide", 3) == 0
        assert [produce(wire, number) for number in range(3)] == [0, 0, 0]
        assert wire.ask(MetadataRequest([]), 1).brokers, "its handler is loaded"
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, LIMIT))
        wait_until(lambda: "no file descriptor is left" in broker.log)
        assert produce(wire, 0) == ErrorCode.KAFKA_STORAGE_ERROR, "the logs have given theirs back"
        waiting = Wire(broker.port)  # the system takes it in, the broker cannot yet
        assert wire.ask(MetadataRequest([]), 1).brokers, "the others are answered"
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        wait_until(lambda: "there are file descriptors again" in broker.log)
        assert [produce(wire, number) for number in range(3)] == [0, 0, 0], "no directory is offline"
    with closing(Wire(broker.port)) as wire:
        assert create(wire, "more", 3) == 0
    waiting.close()
    assert broker.log.count("no file descriptor is left") == 1
    assert broker.stop() == 0
    assert "Traceback" not in broker.log


def test_a_bound_on_partitions(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, {"moldau.partitions.max": "5"}) as broker,
        closing(Wire(broker.port)) as wire,
    ):
        assert create(wire, "a", 4) == 0
        assert create(wire, "b", 2) == ErrorCode.POLICY_VIOLATION
        wider = CreatePartitionsRequest([CreatePartitionsTopic("a", 6, None)], 1000)
        (result,) = wire.ask(wider, 3).results
        assert (result.error_code, result.error_message) == (
            ErrorCode.POLICY_VIOLATION,
            "2 more partition(s) would be too many: the cluster has 4, and moldau.partitions.max is 5.",
        )
        assert create(wire, "c", 1) == 0
