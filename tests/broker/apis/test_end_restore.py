"""EndRestore: the topic appears as a whole, or nothing of it is left."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, RestorePartition
from moldau.protocol.messages.end_restore import EndRestoreRequest, RestoredPartition
from moldau.protocol.messages.restore_batches import RestoreBatchesRequest
from tests.broker.apis.asking import NOWHERE, Ask
from tests.broker.apis.asking import batch as one_batch


def begun(ask: Ask) -> bytes:
    bounds = [RestorePartition(0, 2), RestorePartition(0, 0)]
    topic_id: bytes = ask(BeginRestoreRequest("old", bounds)).topic_id
    sent = one_batch(b"a", b"b", leader_epoch=0)
    assert ask(RestoreBatchesRequest(topic_id, 0, sent)).next_offset == 2
    return topic_id


def test_committed_it_is_there_and_ready(ask: Ask) -> None:
    topic_id = begun(ask)
    response = ask(EndRestoreRequest(topic_id, True))
    assert response.error_code == 0
    assert response.partitions == [RestoredPartition(0, 0, 2), RestoredPartition(1, 0, 0)]
    assert ask.topic_id("old") == topic_id
    assert ask.broker.produce("old", "c") == 2


def test_given_up_nothing_is_left(ask: Ask) -> None:
    topic_id = begun(ask)
    response = ask(EndRestoreRequest(topic_id, False))
    assert (response.error_code, response.partitions) == (0, [])
    assert ask.broker.topics() == []
    assert ask(EndRestoreRequest(topic_id, True)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_one_that_was_never_begun(ask: Ask) -> None:
    response = ask(EndRestoreRequest(NOWHERE, True))
    assert response.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert "being restored" in response.error_message


def test_somebody_else_took_the_name(ask: Ask) -> None:
    topic_id = begun(ask)
    ask.broker.create_topic("old")
    assert ask(EndRestoreRequest(topic_id, True)).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert ask.topic_id("old") != topic_id
