"""DeleteTopics: by name, by id, and when the broker does not allow it."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.testing import Broker
from tests.broker.apis.asking import NOWHERE, Ask


def test_by_name(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    ask.broker.create_topic("kept")
    results = ask(DeleteTopicsRequest([], ["orders", "nowhere"]), 5).responses
    assert [(each.name, each.error_code) for each in results] == [
        ("orders", 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert ask.broker.topics() == ["kept"]


def test_by_id_from_version_6(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    topic_id = ask.topic_id("orders")
    asked = [DeleteTopicState(None, topic_id), DeleteTopicState(None, NOWHERE)]
    found, missing = ask(DeleteTopicsRequest(asked), 6).responses
    assert (found.error_code, found.name, found.topic_id) == (0, "orders", topic_id)
    assert (missing.error_code, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, NOWHERE)
    assert ask.broker.topics() == []


def test_one_topic_by_name_and_by_id_is_not_deleted(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    both = [DeleteTopicState("orders"), DeleteTopicState(None, ask.topic_id("orders"))]
    codes = [each.error_code for each in ask(DeleteTopicsRequest(both)).responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert ask.broker.topics() == ["orders"]


def test_a_topic_that_is_named_twice_is_answered_once(ask: Ask) -> None:
    ask.broker.create_topic("orders")
    (result,) = ask(DeleteTopicsRequest([], ["orders", "orders"]), 5).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert ask.broker.topics() == ["orders"]


def test_the_broker_may_forbid_it() -> None:
    with Broker({"delete.topic.enable": False}) as broker:
        ask = Ask(broker)
        broker.create_topic("orders")
        for version, code in ((2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
            (result,) = ask(DeleteTopicsRequest([], ["orders"]), version).responses
            assert (result.name, result.error_code) == ("orders", code)
        assert broker.topics() == ["orders"]
