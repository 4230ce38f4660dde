"""Files that are gone after a clean stop: said at the start, refused to clients, and nothing is invented."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.storage.errors import LostFileError
from moldau.testing import Broker
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.shared.waiting import wait_until

NOW = 1_700_000_000_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
ACCEPT = {"moldau.accept.lost.files": "true"}


def produce(broker: Broker, topic: str) -> tuple[int, str]:
    with Wire(broker.port) as wire:
        answer = wire.ask(produce_request(topic, batch(b"v" * 100, timestamp=NOW)), 9)
    result = answer.responses[0].partition_responses[0]
    return result.error_code, result.error_message or ""


def fetch(broker: Broker, topic: str, offset: int) -> int:
    asked = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    with Wire(broker.port) as wire:
        answer = wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic(topic, partitions=asked)]), 12)
    return int(answer.responses[0].partitions[0].error_code)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two topics with records; "rolls" has a segment for every second batch."""
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        broker.create_topic("rolls", configs={"internal.segment.bytes": "400"})
        for topic in ("orders", *["rolls"] * 9):
            assert produce(broker, topic) == (0, "")
    return tmp_path


def segments(data: Path) -> list[Path]:
    return sorted((data / "rolls-0").glob("*.log"))


@pytest.mark.slow
def test_a_partition_directory_that_is_gone(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(data / "orders-0")
    for _ in range(2):
        with Broker(data_dir=data) as broker:
            code, message = produce(broker, "orders")
            assert code == STORAGE_ERROR
            assert "orders-0 is gone" in message
            assert "moldau.accept.lost.files=true" in message
            assert fetch(broker, "orders", 0) == STORAGE_ERROR
            assert produce(broker, "rolls") == (0, "")
        assert not (data / "orders-0").exists()
    assert "orders-0 is gone, and with it the records below offset 1" in caplog.text
    with Broker(ACCEPT, data_dir=data) as broker:
        assert produce(broker, "orders") == (0, "")
    with Broker(data_dir=data) as broker:
        assert len(broker.records("orders")) == 1


def test_a_start_that_fails_does_not_forget_what_is_missing(data: Path) -> None:
    shutil.rmtree(data / "orders-0")
    with Broker() as other, pytest.raises(OSError, match="in use"):
        Broker(data_dir=data, port=other.port).start()
    with Broker(data_dir=data) as broker:
        assert produce(broker, "orders")[0] == STORAGE_ERROR


def test_a_topic_with_a_lost_partition_may_be_deleted(data: Path) -> None:
    shutil.rmtree(data / "orders-0")
    with Broker(data_dir=data) as broker:
        with Wire(broker.port) as wire:
            assert wire.ask(DeleteTopicsRequest(topic_names=["orders"]), 5).responses[0].error_code == 0
        broker.create_topic("orders")
        assert produce(broker, "orders") == (0, "")


def test_metadata_that_is_gone(data: Path) -> None:
    (metadata,) = data.glob("metadata.sqlite")
    kept = metadata.read_bytes()
    metadata.unlink()
    for _ in range(2):
        with pytest.raises(LostFileError, match=r"2 partition\(s\) of it: put metadata.sqlite back"):
            Broker(data_dir=data).start()
    metadata.write_bytes(kept)
    with Broker(data_dir=data) as broker:
        assert len(broker.records("rolls")) == 9


def test_metadata_that_is_given_up(data: Path) -> None:
    next(data.glob("metadata.sqlite")).unlink()
    with Broker(ACCEPT, data_dir=data) as broker:
        assert broker.topics() == []
    assert len(segments(data)) > 3, "the records are still there"


def test_a_segment_that_is_gone(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    lost = segments(data)[2]
    kept = lost.read_bytes()
    lost.unlink()
    with Broker(data_dir=data) as broker:
        code, message = produce(broker, "rolls")
        assert code == STORAGE_ERROR
        assert "is gone, though" in message
        assert produce(broker, "orders") == (0, "")
    assert lost.with_suffix(".index").exists()
    lost.write_bytes(kept)
    with Broker(data_dir=data) as broker:
        assert len(broker.records("rolls")) == 9


@pytest.mark.slow
def test_segments_that_changed_places(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = segments(data)[1:3]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    with Broker(data_dir=data) as broker:
        wait_until(said(caplog, "which belongs into another segment"))
        assert fetch(broker, "rolls", int(first.stem)) == ErrorCode.CORRUPT_MESSAGE
        assert produce(broker, "rolls")[0] == STORAGE_ERROR
        assert produce(broker, "orders") == (0, "")
    assert "moldau log verify" in caplog.text
    first.write_bytes(one)
    second.write_bytes(other)
    with Broker(data_dir=data) as broker:
        assert len(broker.records("rolls")) == 9


def said(caplog: pytest.LogCaptureFixture, text: str) -> Callable[[], bool]:
    return lambda: text in caplog.text


def test_junk_behind_the_last_batch(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open(data / "orders-0" / f"{0:020d}.log", "ab") as file:
        file.write(b"junk" * 50)
    with Broker(data_dir=data) as broker:
        assert produce(broker, "orders") == (0, "")
        assert len(broker.records("orders")) == 2
    assert "200 bytes dropped" in caplog.text
