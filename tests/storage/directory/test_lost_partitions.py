"""Partitions whose directory is gone: they do not come back empty unless somebody says so."""

from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.storage.directory.logs import Logs
from moldau.storage.directory.lost_partitions import refuse_to_begin_without_metadata
from moldau.storage.errors import LostFileError
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
ORDERS = TopicPartition("orders", 0)
EMPTY = TopicPartition("empty", 0)


def reopened(node: Any, topic_partition: TopicPartition = ORDERS) -> Any:
    """The partition as after a start, when it is not new."""
    return node.logs.open_partition(topic_partition, TOPIC_ID, LogConfig(), is_new=False)


@pytest.fixture
def lost(make_node: Any, make_batch: Any) -> Any:
    """Two partitions, one with records, of which both directories are gone."""
    node = make_node(MemoryFiles(), ["/data"])
    node.log().append(make_batch(3), 0, NOW)
    node.logs.create(EMPTY, TOPIC_ID, LogConfig())
    node.logs.close({ORDERS: 3})
    node.files.remove_tree("/data/orders-0")
    node.files.remove_tree("/data/empty-0")
    node.start()
    return node


def test_a_partition_with_records_does_not_begin_anew(lost: Any) -> None:
    for _ in range(3):
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                reopened(lost)
            assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "/data/orders-0 is gone, and with it the records below offset 3" in str(caught.value)
            assert "moldau.accept.lost.files=true" in str(caught.value)
        assert reopened(lost, EMPTY).log_end_offset == 0, "nothing can be missing there"
        lost.logs.checkpoint({})
        lost.logs.close()
        assert lost.files.exists("/data/.kafka_cleanshutdown"), "what is there need not be checked"
        assert not lost.files.exists("/data/orders-0")
        lost.start()


def test_a_partition_that_is_back(lost: Any, make_node: Any, make_batch: Any) -> None:
    with pytest.raises(KafkaError):
        reopened(lost)
    lost.logs.close()
    other = make_node(MemoryFiles(), ["/data"])
    other.log().append(make_batch(3), 0, NOW)
    other.logs.close()
    for name, size in other.files.list_sizes("/data/orders-0").items():
        lost.files.make_directory("/data/orders-0")
        copied = lost.files.create(f"/data/orders-0/{name}")
        copied.append(other.files.read_whole(f"/data/orders-0/{name}")[:size])
    lost.start()
    assert reopened(lost).log_end_offset == 3


def test_a_loss_that_is_accepted(lost: Any, caplog: pytest.LogCaptureFixture, make_batch: Any) -> None:
    lost.logs.close()
    logs = Logs(lost.files, ["/data"], 1, None, lost.clock, accept_lost_files=True)
    logs.open()
    log = logs.open_partition(ORDERS, TOPIC_ID, LogConfig(), is_new=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert logs.high_watermark(ORDERS) == 0
    assert "it begins anew and empty, as moldau.accept.lost.files says" in caplog.text
    log.append(make_batch(), 0, NOW)
    logs.close({ORDERS: 1})
    lost.start()
    assert reopened(lost).log_end_offset == 1


def test_a_topic_that_is_deleted_and_created_again(lost: Any) -> None:
    with pytest.raises(KafkaError):
        reopened(lost)
    lost.logs.delete(ORDERS)
    assert lost.logs.open_partition(ORDERS, bytes(16), LogConfig()).log_end_offset == 0
    assert lost.restart().log_end_offset == 0


def test_a_partition_that_cannot_be_used_may_be_deleted(make_node: Any, make_batch: Any) -> None:
    """Its directory must not be in the way of a new topic of the same name."""
    node = make_node(MemoryFiles(), ["/data"])
    node.log().append(make_batch(3), 0, NOW)
    node.logs.close()
    path = f"/data/orders-0/{0:020d}.log"
    node.files.open(path).truncate(70)
    node.start()
    assert ORDERS in node.logs.failed
    node.logs.delete(ORDERS)
    assert node.logs.open_partition(ORDERS, bytes(16), LogConfig()).log_end_offset == 0
    (renamed,) = [name for name in node.files.list_directory("/data") if name.endswith("-delete")]
    assert node.files.size_of(f"/data/{renamed}/{0:020d}.log") == 70


def test_a_cluster_without_metadata(lost: Any, caplog: pytest.LogCaptureFixture) -> None:
    refuse_to_begin_without_metadata(lost.logs.online, 0, accept=False)
    with pytest.raises(LostFileError, match=r"put metadata.sqlite back"):
        refuse_to_begin_without_metadata(lost.logs.online, 2, accept=False)
    refuse_to_begin_without_metadata(lost.logs.online, 2, accept=True)
    assert "they are left alone" in caplog.text
