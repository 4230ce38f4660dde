"""WriteTxnMarkers: ends transactions in the partitions that are named."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.apis.asking import Ask, begin_transaction


def stable_end(ask: Ask) -> int:
    asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, -1)])
    response = ask(ListOffsetsRequest(-1, 1, [asked]))
    return response.topics[0].partitions[0].offset  # type: ignore[no-any-return]


def test_an_open_transaction_is_ended(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    producer_id, epoch = begin_transaction(ask, "orders")
    assert stable_end(ask) == 0
    topics = [WritableTxnMarkerTopic("orders", [0]), WritableTxnMarkerTopic("nowhere", [3])]
    marker = WritableTxnMarker(producer_id, epoch, False, topics, 0)
    (result,) = ask(WriteTxnMarkersRequest([marker])).markers
    assert result.producer_id == producer_id
    assert {
        (topic.name, each.partition_index): each.error_code
        for topic in result.topics
        for each in topic.partitions
    } == {("orders", 0): 0, ("nowhere", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert stable_end(ask) == 2, "one record and the marker"


def test_an_epoch_of_the_past(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    producer_id, epoch = begin_transaction(ask, "orders")
    topics = [WritableTxnMarkerTopic("orders", [0])]
    late = WritableTxnMarker(producer_id, epoch - 1, True, topics, 0)
    (result,) = ask(WriteTxnMarkersRequest([late])).markers
    assert result.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable_end(ask) == 0
