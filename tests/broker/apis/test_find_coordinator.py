"""FindCoordinator: who coordinates a group or a transaction."""

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.apis.asking import Ask

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.mark.parametrize(
    ("kind", "topic"), [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")]
)
def test_the_answer_waits_for_the_topic_behind_it(ask: Ask, kind: int, topic: str) -> None:
    response = ask(FindCoordinatorRequest("key", kind), 3)
    assert (response.error_code, response.error_message) == (0, "NONE")
    assert (response.node_id, response.host, response.port) == (1, *ask.broker.node.address())
    assert ask.broker.topics() == [topic]


def test_a_coordinator_that_cannot_be_made_is_not_available(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(decide: object, **options: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(ask.broker.node.metadata, "submit", refuse)
    answer = ask(FindCoordinatorRequest("key", GROUP), 3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_many_keys_from_version_4(ask: Ask) -> None:
    response = ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["a", "b"]), 4)
    assert [(each.key, each.error_code, each.node_id) for each in response.coordinators] == [
        ("a", 0, 1),
        ("b", 0, 1),
    ]


def test_share_groups_have_no_coordinator(ask: Ask) -> None:
    (answer,) = ask(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["a"]), 6).coordinators
    assert (answer.key, answer.node_id, answer.error_code) == ("a", -1, ErrorCode.INVALID_REQUEST)


def test_an_unknown_kind(ask: Ask) -> None:
    response = ask(FindCoordinatorRequest("a", 7), 3)
    assert (response.error_code, response.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert response.error_message
