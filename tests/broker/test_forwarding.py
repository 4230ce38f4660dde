"""Envelopes: what travels in them, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.cluster.records import ResourceType
from moldau.protocol import codec
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import write_request_header
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.principal_data import ANONYMOUS, encode_principal
from moldau.testing import Cluster

HOST = bytes((127, 0, 0, 1))
PRINCIPAL = encode_principal(ANONYMOUS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


def framed(name: str, correlation_id: int = 5) -> bytes:
    frame = bytearray()
    write_request_header(frame, ApiKey.CREATE_TOPICS, 7, correlation_id, "somebody", True)
    return bytes(frame) + codec.encode(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7)


def send(cluster: Cluster, envelope: EnvelopeRequest, *, to: int = 1) -> EnvelopeResponse:
    async def ask() -> Any:
        return await cluster[3 - to].node.peers.send(to, envelope)

    answer: EnvelopeResponse = cluster[3 - to].run(ask())
    return answer


def ask_another(cluster: Cluster, request: Any) -> Any:
    """Asked of broker 2, which is not the controller."""

    async def ask() -> Any:
        return await cluster[1].node.peers.send(2, request)

    assert cluster.controller_id == 1
    return cluster[1].run(ask())


def test_the_broker_that_was_asked_knows_of_the_change_when_it_answers(cluster: Cluster) -> None:
    answer = ask_another(
        cluster, CreateTopicsRequest([CreatableTopic("far", 2, 1), CreatableTopic("?", 1, 1)])
    )
    created, refused = answer.topics
    assert (created.error_code, created.num_partitions) == (0, 2)
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    known = cluster[2].node.metadata.image.topics_by_name
    assert known["far"].topic_id == created.topic_id
    (deleted,) = ask_another(cluster, DeleteTopicsRequest([DeleteTopicState("far")])).responses
    assert deleted.error_code == 0
    assert "far" not in cluster[2].node.metadata.image.topics_by_name


def test_a_request_that_comes_again_gets_the_answer_that_was_lost(cluster: Cluster) -> None:
    """Not TOPIC_ALREADY_EXISTS: it was this very request that has made the topic."""

    def created(frame: bytes, attempt_id: bytes) -> Any:
        answer = send(cluster, EnvelopeRequest(frame, PRINCIPAL, HOST, attempt_id))
        content = memoryview(answer.response_data or b"")
        (topic,) = codec.decode(CreateTopicsResponse, 7, content[5:]).topics
        return topic

    first = created(framed("again"), b"one attempt more")
    assert first.error_code == 0
    assert created(framed("again"), b"one attempt more") == first
    for other in (b"somebody else's", b""):
        assert created(framed("again"), other).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_connection_that_breaks_on_the_way_to_the_controller(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller has done what it was asked, and its answer is lost."""
    peers = cluster[2].node.peers
    answer, lost = peers.send, []

    async def lose_the_first(broker_id: int, request: Any, **more: Any) -> Any:
        answered = await answer(broker_id, request, **more)
        if isinstance(request, EnvelopeRequest) and not lost:
            lost.append(answered)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection broke")
        return answered

    monkeypatch.setattr(peers, "send", lose_the_first)
    request = CreateTopicsRequest([CreatableTopic("once", 2, 1), CreatableTopic("twice", 1, 1)])
    assert [(each.error_code, each.num_partitions) for each in ask_another(cluster, request).topics] == [
        (0, 2),
        (0, 1),
    ]
    assert lost
    assert {each.error_code for each in ask_another(cluster, request).topics} == {
        ErrorCode.TOPIC_ALREADY_EXISTS
    }


def test_configs_in_parts(cluster: Cluster) -> None:
    """Loggers are set where they are, the broker's own settings are checked there, the controller decides."""

    def resource(kind: int, name: str, key: str, value: str) -> AlterConfigsResource:
        return AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])

    asked = [
        resource(ResourceType.BROKER_LOGGER, "2", "moldau.request", "WARN"),
        resource(ResourceType.BROKER, "2", "log.cleaner.threads", "2"),
        resource(ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
        resource(ResourceType.TOPIC, "nope", "retention.ms", "1"),
        resource(ResourceType.BROKER, "", "num.io.threads", "9"),
    ]
    answer = ask_another(cluster, IncrementalAlterConfigsRequest(asked))
    assert [each.error_code for each in answer.responses] == [
        0,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert [each.resource_name for each in answer.responses] == ["2", "2", "1", "nope", ""]
    assert cluster[2].node.settings.log_cleaner_threads == 2
    assert cluster[2].node.settings.num_io_threads == 9
    assert cluster[1].node.settings.log_cleaner_threads == 1


def test_a_request_with_its_own_header(cluster: Cluster) -> None:
    answer = send(cluster, EnvelopeRequest(framed("t", 77), PRINCIPAL, HOST))
    assert answer.error_code == 0
    assert answer.response_data is not None
    assert int.from_bytes(answer.response_data[:4], "big") == 77
    inner = codec.decode(CreateTopicsResponse, 7, answer.response_data, 5)
    assert [(topic.name, topic.error_code) for topic in inner.topics] == [("t", 0)]


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (EnvelopeRequest(framed("u"), b"\x00\x09", HOST), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (EnvelopeRequest(framed("u"), None, HOST), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (EnvelopeRequest(framed("u"), PRINCIPAL, b"\x01"), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(b"\x00\x00" + framed("u")[2:], PRINCIPAL, HOST), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(framed("u")[:12], PRINCIPAL, HOST), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(b"", PRINCIPAL, HOST), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(cluster: Cluster, envelope: EnvelopeRequest, code: ErrorCode) -> None:
    """A bad principal or address, an API that is not forwarded (Produce), and a request that is cut."""
    answer = send(cluster, envelope)
    assert (answer.error_code, answer.response_data) == (code, None)
    assert "u" not in cluster.image.topics_by_name


def test_only_the_controller_opens_it(cluster: Cluster) -> None:
    answer = send(cluster, EnvelopeRequest(framed("v"), PRINCIPAL, HOST), to=2)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_a_broker_that_has_become_the_controller_answers_what_it_was_to_forward(cluster: Cluster) -> None:
    """Between the look at who is the controller and the sending, it was elected."""

    async def ask() -> Any:
        node = cluster[1].node
        return await node.services.forwarding.ask(CreateTopicsRequest([CreatableTopic("own", 1, 1)]))

    assert cluster.controller_id == 1
    answer = cluster[1].run(ask())
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("own", 0)]
