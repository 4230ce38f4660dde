"""BeginRestore: opens a topic that nobody sees yet."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, RestoreConfig, RestorePartition
from moldau.protocol.messages.end_restore import EndRestoreRequest
from moldau.testing import Broker
from tests.broker.apis.asking import Ask

ONE = [RestorePartition(0, 2)]


def test_a_topic_that_nobody_sees(ask: Ask) -> None:
    response = ask(BeginRestoreRequest("old", ONE))
    assert (response.error_code, response.error_message) == (0, None)
    assert response.topic_id != bytes(16)
    assert ask.broker.topics() == []
    assert ask(EndRestoreRequest(response.topic_id, False)).error_code == 0


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (BeginRestoreRequest("orders", ONE), ErrorCode.TOPIC_ALREADY_EXISTS),
        (BeginRestoreRequest("a b", ONE), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BeginRestoreRequest("__consumer_offsets", ONE), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BeginRestoreRequest("old", []), ErrorCode.INVALID_PARTITIONS),
        (BeginRestoreRequest("old", ONE, [RestoreConfig("no.such", "1")]), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(ask: Ask, request_: BeginRestoreRequest, code: ErrorCode) -> None:
    ask.broker.create_topic("orders")
    response = ask(request_)
    assert (response.error_code, response.topic_id) == (code, bytes(16))
    assert response.error_message


def test_only_so_many_at_once_and_a_silent_one_is_given_up() -> None:
    with Broker({"moldau.restores.max": 1, "moldau.restore.idle.ms": 60_000}) as broker:
        ask = Ask(broker)
        first = ask(BeginRestoreRequest("one", ONE))
        assert first.error_code == 0
        assert ask(BeginRestoreRequest("two", ONE)).error_code == ErrorCode.POLICY_VIOLATION
        broker.clock.advance(61)
        gone = ask(EndRestoreRequest(first.topic_id, False))
        assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert ask(BeginRestoreRequest("two", ONE)).error_code == 0
