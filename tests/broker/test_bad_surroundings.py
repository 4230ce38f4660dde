"""A world that does not play along: disks that are full or broken, directories and ports in use, damaged
metadata. The broker says what is wrong, answers with a code that fits, and goes on where it can.
"""

import gc
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cluster.store.contract import MetadataStoreError
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.storage.memory_files import Faults
from moldau.testing import Broker
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.shared.small_disk import fill, mounted
from tests.shared.waiting import turns

NOW = 1_700_000_000_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Client:
    """Asks one broker for one topic."""

    def __init__(self, broker: Broker) -> None:
        self.wire = Wire(broker.port)

    def produce(self, size: int = 100, topic: str = "t") -> tuple[int, int]:
        """Error code and base offset."""
        records = batch(bytes(size), timestamp=NOW)
        answer = self.wire.ask(produce_request(topic, records), 9)
        result = answer.responses[0].partition_responses[0]
        return result.error_code, result.base_offset

    def fetch(self, offset: int = 0, topic: str = "t") -> Any:
        asked = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
        answer = self.wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic(topic, partitions=asked)]), 12)
        return answer.responses[0].partitions[0]

    def create(self, name: str) -> int:
        answer = self.wire.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000), 7)
        return int(answer.topics[0].error_code)

    def is_answered(self) -> bool:
        return len(self.wire.ask(MetadataRequest([]), 1).brokers) == 1


@pytest.fixture
def in_memory() -> Iterator[tuple[Broker, Client, Faults]]:
    with Broker() as broker:
        broker.create_topic("t")
        assert broker._memory is not None
        client = Client(broker)
        yield broker, client, broker._memory[0].faults
        client.wire.close()


# --- a full disk ------------------------------------------------------------------------------------


def test_a_full_disk(in_memory: tuple[Broker, Client, Faults], caplog: pytest.LogCaptureFixture) -> None:
    broker, client, faults = in_memory
    assert client.produce() == (0, 0)
    faults.bytes_until_full = 50
    assert client.produce() == (STORAGE_ERROR, -1)
    assert client.produce() == (STORAGE_ERROR, -1)
    assert "No space left on device" in caplog.text
    assert client.fetch().high_watermark == 1, "reading goes on"
    faults.bytes_until_full = None
    assert client.produce() == (0, 1), "nothing of the refused batches is left"
    assert [len(record.value or b"") for record in broker.records("t")] == [100, 100]


def test_a_disk_that_is_full_when_a_segment_ends(in_memory: tuple[Broker, Client, Faults]) -> None:
    broker, client, faults = in_memory
    broker.create_topic("rolls", configs={"internal.segment.bytes": 300})
    assert client.produce(topic="rolls") == (0, 0)
    faults.bytes_until_full = 0
    for _ in range(3):
        assert client.produce(topic="rolls") == (STORAGE_ERROR, -1)
    faults.bytes_until_full = None
    for offset in (1, 2, 3, 4):
        assert client.produce(topic="rolls") == (0, offset)
    assert len(broker.records("rolls")) == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    with mounted(tmp_path / "disk", "2m") as place:
        yield place


def test_a_real_disk_that_is_full(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other bytes take the room away and give it back; metadata and data share the disk."""
    with Broker(data_dir=small_disk / "data") as broker:
        broker.create_topic("t")
        client = Client(broker)
        assert client.produce(100_000) == (0, 0)
        fill(small_disk / "ballast")
        assert client.produce(100_000) == (STORAGE_ERROR, -1)
        assert client.create("another") == STORAGE_ERROR
        assert client.fetch().high_watermark == 1
        assert client.is_answered()
        (small_disk / "ballast").unlink()
        assert client.produce(100_000) == (0, 1)
        assert client.create("another") == 0
        client.wire.close()
    with Broker(data_dir=small_disk / "data") as broker:
        assert len(broker.records("t")) == 2
        assert broker.topics() == ["another", "t"]


# --- a broken disk ----------------------------------------------------------------------------------


def test_a_log_that_cannot_be_read(
    in_memory: tuple[Broker, Client, Faults], caplog: pytest.LogCaptureFixture
) -> None:
    """What is found by the index is promised before it is read: then only the connection can end."""
    broker, client, faults = in_memory
    assert client.produce() == (0, 0)
    faults.read_fails = True
    with Wire(broker.port) as other:
        asked = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)])
        other.send(FetchRequest(min_bytes=1, topics=[asked]), 12)
        other.read_to_end()
    assert client.is_answered()
    assert "Input/output error" in caplog.text
    faults.read_fails = False
    assert client.fetch().high_watermark == 1


def test_a_lookup_that_cannot_be_read(
    in_memory: tuple[Broker, Client, Faults], caplog: pytest.LogCaptureFixture
) -> None:
    _, client, faults = in_memory
    assert client.produce() == (0, 0)
    faults.read_fails = True
    asked = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, NOW)])]
    answer = client.wire.ask(ListOffsetsRequest(-1, 0, asked), 7)
    assert answer.topics[0].partitions[0].error_code == STORAGE_ERROR
    assert "Traceback" not in caplog.text


def test_a_disk_that_cannot_flush(in_memory: tuple[Broker, Client, Faults]) -> None:
    """Where the topic asks for the disk before the answer, its failure is the answer."""
    broker, client, faults = in_memory
    broker.create_topic("safe", configs={"flush.messages": 1})
    assert client.produce(topic="safe") == (0, 0)
    faults.flush_fails = True
    assert client.produce(topic="safe") == (STORAGE_ERROR, -1)


@pytest.mark.slow
def test_a_flush_that_fails_while_nobody_waits_for_it(
    in_memory: tuple[Broker, Client, Faults], caplog: pytest.LogCaptureFixture
) -> None:
    broker, client, faults = in_memory
    broker.create_topic("rolls", configs={"internal.segment.bytes": 300})
    faults.flush_fails = True
    for _ in range(6):
        client.produce(topic="rolls")
    broker.run(turns())
    gc.collect()
    assert client.is_answered()
    assert "never retrieved" not in caplog.text


# --- what others hold -------------------------------------------------------------------------------


def run_broker(directory: Path, port: int = 0) -> "subprocess.CompletedProcess[str]":
    """A broker of its own process, which is expected not to come up."""
    command = [sys.executable, "-m", "moldau", "broker", "--port", str(port), "--data-dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_a_data_directory_in_use_by_another_process(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        ended = run_broker(tmp_path)
        assert ended.returncode == 1
        assert str(tmp_path) in ended.stderr
        assert "is running already" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert Client(broker).produce() == (0, 0), "the first one has not noticed"


def test_a_data_directory_in_use_by_this_process(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        with pytest.raises(MetadataStoreError, match="is running already"):
            Broker(data_dir=tmp_path).start()
        broker.create_topic("t")
    with Broker(data_dir=tmp_path) as broker:
        assert broker.topics() == ["t"]


@pytest.mark.slow
def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_broker(tmp_path, port)
        assert ended.returncode == 1
        assert str(port) in ended.stderr
        assert "Traceback" not in ended.stderr
        with pytest.raises(OSError, match="in use"):
            Broker(data_dir=tmp_path, port=port).start()
    with Broker(data_dir=tmp_path, port=port) as broker:
        assert Client(broker).is_answered(), "nothing of the failed starts is left in the way"


# --- damaged metadata -------------------------------------------------------------------------------


def prepared(directory: Path) -> Path:
    with Broker(data_dir=directory) as broker:
        broker.create_topic("t")
        assert Client(broker).produce() == (0, 0)
    (found,) = directory.glob("*.sqlite")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["garbage", "cut", "empty", "a hole"])
def test_damaged_metadata(damage: str, tmp_path: Path) -> None:
    """The broker must not come up as if it were new and let the topics go; it names the file and ends."""
    path = prepared(tmp_path)
    content = path.read_bytes()
    damaged = {
        "garbage": b"this is not a database" * 400,
        "cut": content[: len(content) // 2],
        "empty": b"",
        "a hole": content[:2000] + bytes(4000) + content[6000:],
    }
    path.write_bytes(damaged[damage])
    ended = run_broker(tmp_path)
    assert ended.returncode == 1
    assert str(tmp_path) in ended.stderr
    assert "Traceback" not in ended.stderr
    path.write_bytes(content)
    with Broker(data_dir=tmp_path) as broker:
        assert len(broker.records("t")) == 1
