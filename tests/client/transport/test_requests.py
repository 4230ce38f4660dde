"""Requests as bytes: the version that both sides know, and batches that are sent from their own memory."""

import struct

import pytest

from moldau.client.transport.requests import (
    InPlace,
    agreed_version,
    answer_reader,
    api_key_of,
    encoded_request,
    request_parts,
)
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.schema import Versions
from tests.shared.request_headers import read_request_header

OURS_LAST = 4


@pytest.mark.parametrize(
    ("theirs", "most", "expected"),
    [((0, 9), None, OURS_LAST), ((0, 2), None, 2), ((0, 9), 3, 3), ((1, 2), 1, 1)],
)
def test_the_highest_version_that_both_know(theirs: tuple[int, int], most: int | None, expected: int) -> None:
    offered = {int(ApiKey.HEARTBEAT): Versions(*theirs)}
    assert agreed_version("a:1", offered, ApiKey.HEARTBEAT, most) == expected


@pytest.mark.parametrize(
    ("offered", "most", "words"),
    [
        ({}, None, "does not offer HEARTBEAT"),
        ({int(ApiKey.HEARTBEAT): Versions(7, 9)}, None, "offers versions 7 to 9, this client knows 0 to 4"),
        ({int(ApiKey.HEARTBEAT): Versions(3, 9)}, 2, "this client knows 0 to 2"),
    ],
)
def test_versions_that_do_not_meet(offered: dict[int, Versions], most: int | None, words: str) -> None:
    with pytest.raises(KafkaError, match=words) as refused:
        agreed_version("a:1", offered, ApiKey.HEARTBEAT, most)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_request_in_one_piece() -> None:
    request = HeartbeatRequest("g", 1, "m")
    assert api_key_of(request) is ApiKey.HEARTBEAT
    whole = encoded_request(request, ApiKey.HEARTBEAT, 3, 7, "me")
    assert struct.unpack_from(">i", whole)[0] == len(whole) - 4
    header = read_request_header(memoryview(whole)[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.HEARTBEAT, 3, 7)
    assert decode(HeartbeatRequest, 3, memoryview(whole)[4:], header.position) == request


def test_batches_are_sent_from_their_own_memory() -> None:
    content = memoryview(bytearray(b"a record batch"))

    def request(records: object) -> ProduceRequest:
        data = [PartitionProduceData(0, records), PartitionProduceData(1, records)]
        return ProduceRequest(None, -1, 1000, [TopicProduceData("t", bytes(16), data)])

    parts = request_parts(request(InPlace(content)), ApiKey.PRODUCE, 9, 1, "me")
    assert sum(part is content for part in parts) == 2
    whole = encoded_request(request(bytes(content)), ApiKey.PRODUCE, 9, 1, "me")
    assert b"".join(parts) == bytes(whole)


@pytest.mark.parametrize(("version", "tags"), [(3, b""), (4, b"\0")])
def test_an_answer_behind_its_header(version: int, tags: bytes) -> None:
    answer = HeartbeatResponse(error_code=27)
    frame = memoryview(bytes(4) + tags + encode(answer, version))
    assert answer_reader(HeartbeatResponse, version)(frame).error_code == 27
