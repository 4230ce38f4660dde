"""RestoreBatches: batches at the offsets that they have, in order."""

from collections.abc import Iterator

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, RestorePartition
from moldau.protocol.messages.end_restore import EndRestoreRequest
from moldau.protocol.messages.restore_batches import RestoreBatchesRequest
from moldau.protocol.records import Record, encode_batch
from tests.broker.apis.asking import NOWHERE, Ask, batch


def at(offset: int, *values: bytes) -> bytes:
    records = [Record(offset + index, 1000, None, value, ()) for index, value in enumerate(values)]
    return bytes(encode_batch(records, base_offset=offset, leader_epoch=0))


@pytest.fixture
def topic_id(ask: Ask) -> Iterator[bytes]:
    opened = ask(BeginRestoreRequest("old", [RestorePartition(5, 9)]))
    assert opened.error_code == 0
    yield opened.topic_id
    ask(EndRestoreRequest(opened.topic_id, False))  # in vain, where the test has ended it


def test_offsets_stay_as_they_are(ask: Ask, topic_id: bytes) -> None:
    assert ask(RestoreBatchesRequest(topic_id, 0, at(5, b"a", b"b"))).next_offset == 7
    assert ask(RestoreBatchesRequest(topic_id, 0, at(8, b"c"))).next_offset == 9, "a compacted log has gaps"
    ask(EndRestoreRequest(topic_id, True))
    found = [(record.offset, record.value) for record in ask.broker.records("old")]
    assert found == [(5, b"a"), (6, b"b"), (8, b"c")]


def test_what_cannot_follow_changes_nothing(ask: Ask, topic_id: bytes) -> None:
    ask(RestoreBatchesRequest(topic_id, 0, at(5, b"a", b"b")))
    for records in (at(6, b"again"), at(7, b"c")[:-1] + b"!"):
        assert ask(RestoreBatchesRequest(topic_id, 0, records)).error_code
    assert ask(RestoreBatchesRequest(topic_id, 0, at(7, b"c"))).next_offset == 8


def test_requests_that_name_nothing(ask: Ask, topic_id: bytes) -> None:
    assert ask(RestoreBatchesRequest(NOWHERE, 0, batch())).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    for nothing in (b"", None):
        response = ask(RestoreBatchesRequest(topic_id, 0, nothing))
        assert (response.error_code, response.next_offset) == (ErrorCode.INVALID_REQUEST, -1)
    assert (
        ask(RestoreBatchesRequest(topic_id, 3, at(5, b"a"))).error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
