"""DeleteRecords: the start of a log moves forward, and never beyond what is committed."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.apis.asking import Ask, new_producer


def delete(ask: Ask, topic: str, offset: int) -> tuple[int, int]:
    """The error and the low watermark of the first partition."""
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    response = ask(DeleteRecordsRequest([asked]))
    assert response.topics[0].name == topic
    (result,) = response.topics[0].partitions
    return result.error_code, result.low_watermark


@pytest.fixture
def filled(ask: Ask) -> Ask:
    for value in ("a", "b", "c"):
        ask.broker.produce("orders", value)
    return ask


def test_records_below_an_offset_go(filled: Ask) -> None:
    assert delete(filled, "orders", 2) == (0, 2)
    assert [record.value for record in filled.broker.records("orders")] == [b"c"]
    assert delete(filled, "orders", 1) == (0, 2), "the start does not go back"


def test_minus_one_is_the_high_watermark(filled: Ask) -> None:
    assert delete(filled, "orders", -1) == (0, 3)
    assert filled.broker.records("orders") == []


@pytest.mark.parametrize("offset", [4, -2])
def test_offsets_that_are_not_in_the_log(filled: Ask, offset: int) -> None:
    assert delete(filled, "orders", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_topics_that_keep_their_records(ask: Ask) -> None:
    assert delete(ask, "nowhere", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    ask.broker.create_topic("state", configs={"cleanup.policy": "compact"})
    assert delete(ask, "state", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    new_producer(ask)
    assert delete(ask, "__transaction_state", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
