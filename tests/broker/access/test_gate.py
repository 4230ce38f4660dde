"""The gate: no way around it, nothing done for what is refused, and no cost without an authorizer."""

from collections.abc import Iterator

import pytest

from moldau.base.settings import SettingError
from moldau.broker.access.asks import Each, Whole, Within
from moldau.broker.access.gate import guard
from moldau.broker.apis import TABLE
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.security.acls import Operation, ResourceType
from moldau.testing import Broker
from tests.security.secure_wire import Closed, Wire

_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "sasl.jaas.config": 'x.PlainLoginModule required user_admin="s" user_ann="s" user_bob="s";',
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(_SETTINGS) as broker:
        yield broker


def login(broker: Broker, user: str) -> Wire:
    return Wire(broker.bootstrap_servers).log_in(user, "s")


def grant(broker: Broker, user: str, operation: Operation, name: str) -> None:
    creation = AclCreation(ResourceType.TOPIC, name, 3, f"User:{user}", "*", operation, 3)
    with login(broker, "admin") as wire:
        (result,) = wire.ask(CreateAclsRequest([creation])).results
        assert result.error_code == 0


def topics(broker: Broker, user: str, *names: str) -> list[int]:
    with login(broker, user) as wire:
        wanted = [CreatableTopic(name, 1, 1) for name in names]
        return [topic.error_code for topic in wire.ask(CreateTopicsRequest(wanted)).topics]


def produce(*names: str, acks: int = -1) -> ProduceRequest:
    batch = bytes(encode_batch([Record(0, 1, None, b"v", ())]))
    data = [TopicProduceData(name, b"", [PartitionProduceData(0, batch)]) for name in names]
    return ProduceRequest(None, acks, 1000, data)


@pytest.mark.parametrize("api_key", list(TABLE), ids=lambda key: key.name)
def test_every_handler_has_a_declaration(api_key: ApiKey) -> None:
    asks = TABLE[api_key].asks
    assert isinstance(asks, tuple)
    assert all(isinstance(ask, Whole | Each | Within) for ask in asks)


#: What everybody may ask, with or without rights.
_OPEN = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}


def test_what_asks_for_nothing_is_on_a_list() -> None:
    assert {key for key, api in TABLE.items() if not api.asks} == _OPEN


def test_a_handler_that_asks_for_itself_is_not_wrapped() -> None:
    handle = TABLE[ApiKey.FETCH].handle
    assert guard(ApiKey.FETCH, handle) is handle
    handle = TABLE[ApiKey.PRODUCE].handle
    assert guard(ApiKey.PRODUCE, handle) is not handle


def test_a_mixed_produce_writes_what_it_may_and_refuses_the_rest(broker: Broker) -> None:
    assert topics(broker, "admin", "mixed-yes", "mixed-no") == [0, 0]
    grant(broker, "ann", Operation.WRITE, "mixed-yes")
    with login(broker, "ann") as wire:
        answer = wire.ask(produce("mixed-no", "mixed-yes"), 12)
    assert [(each.name, each.partition_responses[0].error_code) for each in answer.responses] == [
        ("mixed-yes", 0),
        ("mixed-no", 29),
    ]
    assert len(broker.records("mixed-yes")) == 1
    assert broker.records("mixed-no") == []


def test_a_refused_produce_without_answers_closes_the_connection(broker: Broker) -> None:
    assert topics(broker, "admin", "quiet") == [0]
    with login(broker, "bob") as wire:
        wire.send(produce("quiet", acks=0), 12)
        with pytest.raises(Closed):
            wire.receive_frame()
    assert broker.records("quiet") == []


def test_a_refused_topic_is_not_made(broker: Broker) -> None:
    before = set(broker.topics())
    assert topics(broker, "bob", "never") == [29]
    with login(broker, "bob") as wire:
        wanted = MetadataRequest([MetadataRequestTopic(name="never-either")], allow_auto_topic_creation=True)
        assert wire.ask(wanted, 12).topics[0].error_code == 29
    assert set(broker.topics()) == before


def test_a_session_of_fetches_is_asked_about_each_time(broker: Broker) -> None:
    """A right that is taken away counts for a fetch session that goes on."""
    assert topics(broker, "admin", "watched") == [0]
    creation = AclCreation(ResourceType.TOPIC, "watched", 3, "User:ann", "*", Operation.READ, 3)
    denial = AclCreation(ResourceType.TOPIC, "watched", 3, "User:ann", "*", Operation.READ, 2)
    wanted = FetchTopic("watched", b"", [FetchPartition(0, -1, 0, partition_max_bytes=1000)])
    with login(broker, "admin") as admin, login(broker, "ann") as wire:
        admin.ask(CreateAclsRequest([creation]))
        first = wire.ask(FetchRequest(topics=[wanted], session_epoch=0), 12)
        assert first.responses[0].partitions[0].error_code == 0
        admin.ask(CreateAclsRequest([denial]))
        again = wire.ask(FetchRequest(session_id=first.session_id, session_epoch=1), 12)
    assert again.responses[0].partitions[0].error_code == 29


def test_nobody_reads_as_a_follower(broker: Broker) -> None:
    assert topics(broker, "admin", "followed") == [0]
    grant(broker, "bob", Operation.ALL, "followed")
    wanted = FetchTopic("followed", b"", [FetchPartition(0, -1, 0, partition_max_bytes=1000)])
    with login(broker, "bob") as wire:
        answer = wire.ask(FetchRequest(replica_id=2, topics=[wanted]), 12)
    assert answer.responses[0].partitions[0].error_code == 29


def test_an_expression_of_a_group_tells_nothing_of_topics_that_are_not_its_members(broker: Broker) -> None:
    assert topics(broker, "admin", "regex-open", "regex-closed") == [0, 0]
    grant(broker, "ann", Operation.DESCRIBE, "regex-open")
    creation = AclCreation(ResourceType.GROUP, "regex", 3, "User:ann", "*", Operation.READ, 3)
    with login(broker, "admin") as admin, login(broker, "ann") as ann:
        assert admin.ask(CreateAclsRequest([creation])).results[0].error_code == 0
        admin.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["regex"]), 4)
        member = ConsumerGroupHeartbeatRequest("regex", "AAAAAAAAAAAAAAAAAAAAAw", 0)
        member.rebalance_timeout_ms, member.topic_partitions = 60_000, []
        member.subscribed_topic_regex = "regex-.*"
        assigned: list[bytes] = []
        for _ in range(100):
            answer = ann.ask(member, 1)
            assert answer.error_code == 0
            assigned = [each.topic_id for each in answer.assignment.topic_partitions]
            if assigned:
                break
            broker.clock.advance(1)
        (known,) = admin.ask(MetadataRequest([MetadataRequestTopic(name="regex-open")]), 12).topics
        assert assigned == [known.topic_id]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"super.users": "admin;User:bob"}, "super.users=admin;User:bob is no list as User:ann;User:bob"),
        ({"authorizer.class.name": "com.example.Mine"}, "authorizer.class.name=com.example.Mine is none of"),
    ],
)
def test_a_broker_whose_rights_cannot_be_read_does_not_start(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said), Broker(_SETTINGS | settings):
        pass
