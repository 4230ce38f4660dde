"""A Produce request with one batch: the bytes of the general codec, and what it reads of answers."""

import pytest

from moldau.base.names import TopicPartition
from moldau.client.producer import plain_request
from moldau.client.transport.requests import answer_reader, encoded_request, framed
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import writer
from moldau.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ORDERS_ID = b"o" * 16
ORDERS = TopicPartition("orders", 3)
VERSION = plain_request.VERSION


@pytest.mark.parametrize("size", [1, 61, 126, 127, 16_382, 16_383, 3_000_000])
@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("client_id", [None, "moldau-rest"])
def test_the_bytes_are_those_of_the_general_codec(size, acks, client_id):
    records = bytes(size)
    topic = TopicProduceData(
        name="", topic_id=ORDERS_ID, partition_data=[PartitionProduceData(index=3, records=records)]
    )
    request = ProduceRequest(None, acks, 30_000, [topic])
    parts = plain_request.encoded(ORDERS_ID, 3, records, acks=acks, timeout_ms=30_000)
    assert framed(parts, ApiKey.PRODUCE, VERSION, 77, client_id) == encoded_request(
        request, ApiKey.PRODUCE, VERSION, 77, client_id
    )


def frame(*partitions, topic_id=ORDERS_ID, throttle_time_ms=0):
    topic = TopicProduceResponse(name="", topic_id=topic_id, partition_responses=list(partitions))
    out = bytearray(b"\x00\x00\x00\x07\x00")
    writer(ProduceResponse, VERSION)(ProduceResponse([topic], throttle_time_ms), out, [])
    return memoryview(bytes(out))


def answer(index=3, error_code=0, **fields):
    return PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=1234567890123,
        **{"log_append_time_ms": -1, "log_start_offset": 5, "record_errors": [], **fields},
    )


def read(data):
    general = answer_reader(ProduceResponse, VERSION)
    return plain_request.answer_reader(ORDERS_ID, 3, general)(data)


@pytest.mark.parametrize("throttle_time_ms", [0, 250])
@pytest.mark.parametrize("time", [-1, 1_700_000_000_000])
def test_a_batch_that_is_written(throttle_time_ms, time):
    data = frame(answer(log_append_time_ms=time), throttle_time_ms=throttle_time_ms)
    assert read(data) == (1234567890123, time)


@pytest.mark.parametrize(
    "data",
    [
        frame(answer(error_code=3)),
        frame(answer(index=2)),
        frame(answer(), topic_id=b"u" * 16),
        frame(answer(), answer(index=4)),
        frame(),
        frame(answer(error_message="")),
        frame(answer(error_message="a word")),
        frame(answer(record_errors=[BatchIndexAndErrorMessage(0, None)])),
        frame(answer(current_leader=LeaderIdAndEpoch(2, 5))),
    ],
)
def test_any_other_answer_is_read_by_the_general_codec(data):
    assert read(data) == answer_reader(ProduceResponse, VERSION)(data)
