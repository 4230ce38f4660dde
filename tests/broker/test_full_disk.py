"""A disk that is full when a broker starts: it starts, serves what is there, and lets room be made."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.integration.broker_process import BrokerProcess
from tests.shared.small_disk import fill, mounted
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
NOW = 1_700_000_000_000
#: Room is made at once, and not after a minute.
SETTINGS = {
    "log.segment.delete.delay.ms": "0",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "1000",
    "log.retention.ms": "-1",
    "moldau.disk.free.min.bytes": "0",  # these tests are about the last byte
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "32m") as place:
        yield place


def create(wire: Wire, name: str, **configs: str) -> int:
    configured = [CreatableTopicConfig(key, value) for key, value in configs.items()]
    topic = CreatableTopic(name, 1, 1, configs=configured)
    return int(wire.ask(CreateTopicsRequest([topic], 5000), 7).topics[0].error_code)


def produce(wire: Wire, topic: str, size: int = 100) -> int:
    answer = wire.ask(produce_request(topic, batch(bytes(size), timestamp=NOW)), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetch(wire: Wire, topic: str) -> Any:
    asked = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
    answer = wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic(topic, partitions=asked)]), 12)
    return answer.responses[0].partitions[0]


@pytest.fixture
def data(disk: Path, request: pytest.FixtureRequest) -> Path:
    """Two topics, one of them with megabytes; the disk is full, and the broker was stopped or killed."""
    broker = BrokerProcess(disk / "data", SETTINGS)
    broker.start()
    with closing(Wire(broker.port)) as wire:
        assert create(wire, "orders") == 0
        assert create(wire, "old") == 0
        assert produce(wire, "orders") == 0
        for _ in range(8):
            assert produce(wire, "old", 500_000) == 0
    if getattr(request, "param", "stop") == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.close()
    fill(disk / "ballast")
    assert shutil.disk_usage(disk).free == 0
    return disk / "data"


@pytest.mark.parametrize("data", ["stop", "kill"], indirect=True)
def test_topics_can_be_read_and_deleted(data: Path) -> None:
    with BrokerProcess(data, SETTINGS) as broker, closing(Wire(broker.port)) as wire:
        assert "the disk is full" in broker.log
        assert "make room: delete topics or records" in broker.log
        found = fetch(wire, "orders")
        assert (found.error_code, found.high_watermark) == (0, 1)
        assert fetch(wire, "old").high_watermark == 8
        assert produce(wire, "orders", 50_000) == STORAGE_ERROR
        assert create(wire, "more") == STORAGE_ERROR
        deleted = wire.ask(DeleteTopicsRequest(topic_names=["old"]), 5)
        assert deleted.responses[0].error_code == 0
        wait_until(lambda: produce(wire, "orders", 10_000) == 0)
        assert create(wire, "more") == 0
        assert broker.stop() == 0
        broker.start()
        assert "Traceback" not in broker.log


def test_retention_makes_room(data: Path) -> None:
    settings = SETTINGS | {"log.retention.ms": "1000"}
    with BrokerProcess(data, settings) as broker, closing(Wire(broker.port)) as wire:
        wait_until(lambda: produce(wire, "orders", 10_000) == 0)
        assert fetch(wire, "old").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert "Traceback" not in broker.log


def test_it_starts_again_and_again(data: Path) -> None:
    for _ in range(4):
        with BrokerProcess(data, SETTINGS) as broker, closing(Wire(broker.port)) as wire:
            assert fetch(wire, "orders").high_watermark == 1
            assert produce(wire, "orders", 50_000) == STORAGE_ERROR
            assert broker.stop() == 0, broker.log
            assert "Traceback" not in broker.log


def up(data: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "moldau", "up", "--data-dir", str(data)]
    command += ["--no-registry", "--no-rest", "--no-console"]
    command += ["--port", "0", "--seconds", "0.1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_the_platform_on_a_full_disk(data: Path) -> None:
    ended = up(data)
    assert "moldau is up" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 0


def test_the_platform_on_a_full_disk_that_it_has_never_used(disk: Path) -> None:
    fill(disk / "ballast")
    ended = up(disk / "data")
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "the disk is full" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) <= 3
    assert ended.returncode == 1
