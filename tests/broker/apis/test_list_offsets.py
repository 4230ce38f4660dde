"""ListOffsets: the special places of a log, the offset of a time, and which version knows what."""

import pytest

from moldau.cluster.image import PartitionImage
from moldau.protocol.compression import Compression
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.broker.apis.asking import Ask, batch, begin_transaction, produce_request


def look_up(
    ask: Ask, timestamp: int, version: int = 11, *, epoch: int = -1, partition: int = 0, isolation: int = 0
) -> ListOffsetsPartitionResponse:
    wanted = [ListOffsetsPartition(partition, epoch, timestamp)]
    response = ask(ListOffsetsRequest(-1, isolation, [ListOffsetsTopic("orders", wanted)]), version)
    (answer,) = response.topics[0].partitions
    return answer  # type: ignore[no-any-return]


@pytest.fixture
def filled(ask: Ask) -> Ask:
    """Offsets 0 to 2 with the timestamps 100, 300 and 200; the first is deleted."""
    ask.broker.create_topic("orders")
    for timestamp in (100, 300, 200):
        ask(produce_request("orders", batch(timestamp=timestamp)), 9)
    one = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 1)])
    ask(DeleteRecordsRequest([one]))
    return ask


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (-1, (-1, 3, 0)),
        (-2, (-1, 1, 0)),
        (-3, (300, 1, 0)),
        (-4, (-1, 1, 0)),
        (-5, (-1, -1, -1)),
        (-6, (-1, -1, -1)),
        (150, (300, 1, 0)),
        (301, (-1, -1, -1)),
    ],
)
def test_places_of_a_log(filled: Ask, place: int, expected: tuple[int, int, int]) -> None:
    answer = look_up(filled, place)
    assert answer.error_code == 0
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == expected


@pytest.mark.parametrize(("place", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_a_place_that_the_version_does_not_know(filled: Ask, place: int, since: int) -> None:
    assert look_up(filled, place, since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert look_up(filled, place, since).error_code == 0


def test_the_end_does_not_go_back_with_a_new_leader(filled: Ask) -> None:
    """It knows a lower high watermark than the one before, until its followers have asked for more."""
    node = filled.broker.node
    partition = node.replicas.find("orders", 0)
    now_ms = filled.broker.clock.now_ms()

    async def lead() -> None:
        partition.high_watermark = 2
        partition.take_role(PartitionImage(0, (1, 2), (1, 2), 1, 5, 5), now_ms)

    async def fetched() -> None:
        partition.follower_fetched(2, 3, 0, now_ms)

    filled.broker.run(lead())
    for place in (-1, 301):
        assert look_up(filled, place).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert look_up(filled, place, 4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert look_up(filled, -2).offset == 1
    assert look_up(filled, 150).offset == 1
    filled.broker.run(fetched())
    assert look_up(filled, -1).offset == 3
    assert look_up(filled, 301).error_code == 0


def test_a_place_that_nobody_knows(filled: Ask) -> None:
    assert look_up(filled, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_end_for_readers_of_committed_records(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    begin_transaction(ask, "orders")
    assert look_up(ask, -1).offset == 1
    assert look_up(ask, -1, isolation=1).offset == 0


@pytest.mark.parametrize("timestamp", [0, -3], ids=["by time", "largest timestamp"])
def test_a_time_finds_no_record_of_an_open_transaction_for_readers_of_committed_ones(
    ask: Ask, timestamp: int
) -> None:
    ask.broker.create_topic("orders")
    begin_transaction(ask, "orders")
    assert look_up(ask, timestamp).offset == 0
    hidden = look_up(ask, timestamp, isolation=1)
    assert (hidden.timestamp, hidden.offset, hidden.leader_epoch) == (-1, -1, -1)


def test_what_is_refused(filled: Ask) -> None:
    assert look_up(filled, -1, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(filled, -1, epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(filled, -1, epoch=-2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert look_up(filled, -1, isolation=2).error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_that_is_named_twice(filled: Ask) -> None:
    twice = [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)]
    response = filled(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", twice)]))
    assert [each.error_code for each in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]


def test_a_time_inside_a_heavy_batch(ask: Ask) -> None:
    """It is looked into in a thread, and so is the next one where that has nothing from the start on."""
    ask.broker.create_topic("orders")
    heavy = batch(*[b""] * 10_001, timestamp=100, compression=Compression.ZSTD)
    for records in (heavy, heavy, batch(timestamp=300)):
        ask(produce_request("orders", records), 9)
    assert look_up(ask, 50).offset == 0
    assert look_up(ask, 300).offset == 20_002
    assert look_up(ask, -3).offset == 20_002
    ask(DeleteRecordsRequest([DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 10_001)])]))
    answer = look_up(ask, 50)
    assert (answer.error_code, answer.timestamp, answer.offset) == (0, 100, 10_001)
