"""The JSON form of every record: stable, complete, and strict about what it cannot read."""

import inspect
import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.records import (
    AclAdded,
    AclRemoved,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    ClientQuotaSet,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    DelegationTokenRemoved,
    DelegationTokenSet,
    Endpoint,
    FeatureLevel,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicCreated,
    TopicDeleted,
    UnreadableRecord,
    decode,
    decode_all,
    encode,
    encode_all,
)
from moldau.security.acls import Acl
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.principals import Principal
from moldau.security.quotas import QuotaEntity
from moldau.security.scram import ScramCredential, ScramMechanism

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
LISTENER = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")
ACL = Acl(2, "orders", 3, "User:ann", "*", 3, 3)

#: What stands in files that users have: a change here is a change of the format.
STORED = [
    (ClusterCreated("5L6g3nShT-eMCtK--X86sw"), {"cluster_id": "5L6g3nShT-eMCtK--X86sw"}),
    (FeatureLevel("metadata.version", 29), {"name": "metadata.version", "level": 29}),
    (ControllerElected(1, 7), {"broker_id": 1, "controller_epoch": 7}),
    (
        BrokerRegistered(1, 12, TOPIC_ID, (LISTENER,), "r1", (TOPIC_ID,)),
        {
            "broker_id": 1,
            "broker_epoch": 12,
            "incarnation_id": TOPIC_ID_TEXT,
            "listeners": [["PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"]],
            "rack": "r1",
            "log_directories": [TOPIC_ID_TEXT],
        },
    ),
    (BrokerFenced(2), {"broker_id": 2}),
    (BrokerShuttingDown(2), {"broker_id": 2}),
    (BrokerUnregistered(2), {"broker_id": 2}),
    (TopicCreated(TOPIC_ID, "orders"), {"topic_id": TOPIC_ID_TEXT, "name": "orders"}),
    (
        PartitionChanged(TOPIC_ID, 3, (1, 2), (2,), 2, 5, 9, (TOPIC_ID, TOPIC_ID), (2,), (1,), (1,), (3,)),
        {
            "topic_id": TOPIC_ID_TEXT,
            "partition": 3,
            "replicas": [1, 2],
            "isr": [2],
            "leader": 2,
            "leader_epoch": 5,
            "partition_epoch": 9,
            "directories": [TOPIC_ID_TEXT, TOPIC_ID_TEXT],
            "adding_replicas": [2],
            "removing_replicas": [1],
            "elr": [1],
            "last_known_elr": [3],
        },
    ),
    (TopicDeleted(TOPIC_ID), {"topic_id": TOPIC_ID_TEXT}),
    (
        ConfigChanged(ResourceType.TOPIC, "orders", "retention.ms", None),
        {"resource_type": "TOPIC", "resource_name": "orders", "name": "retention.ms", "value": None},
    ),
    (ProducerIdsAllocated(1, 3000, 1000), {"broker_id": 1, "first_id": 3000, "count": 1000}),
    (AclAdded(ACL), {"acl": [2, "orders", 3, "User:ann", "*", 3, 3]}),
    (AclRemoved(ACL), {"acl": [2, "orders", 3, "User:ann", "*", 3, 3]}),
    (
        ScramCredentialSet(
            "ann", ScramCredential(ScramMechanism.SHA_512, b"salt", b"stored", b"server", 4096)
        ),
        {"user": "ann", "credential": [2, "c2FsdA==", "c3RvcmVk", "c2VydmVy", 4096]},
    ),
    (ScramCredentialRemoved("ann", ScramMechanism.SHA_256), {"user": "ann", "mechanism": 1}),
    (
        ClientQuotaSet(QuotaEntity("ann", ""), "producer_byte_rate", 1000.0),
        {"entity": ["ann", "", None], "name": "producer_byte_rate", "value": 1000.0},
    ),
    (
        DelegationTokenSet(
            DelegationToken("id", Principal("ann"), Principal("bob"), (Principal("eve"),), 1, 2, 3)
        ),
        {
            "token": {
                "token_id": "id",
                "owner": "User:ann",
                "requester": "User:bob",
                "renewers": ["User:eve"],
                "issued_at_ms": 1,
                "expires_at_ms": 2,
                "max_at_ms": 3,
            }
        },
    ),
    (DelegationTokenRemoved("id"), {"token_id": "id"}),
]


def test_the_list_above_has_every_record_with_every_field() -> None:
    assert {type(record) for record, _ in STORED} == set(get_args(Record))
    for record, stored in STORED:
        assert list(stored) == list(inspect.signature(type(record)).parameters)


@pytest.mark.parametrize(("record", "stored"), STORED, ids=lambda value: type(value).__name__)
def test_stored_form(record: Record, stored: dict[str, Any]) -> None:
    version = 2 if isinstance(record, PartitionChanged) else 1
    value = {"type": type(record).__name__, "version": version, **stored}
    assert json.loads(encode(record)) == value
    assert decode(json.dumps(value)) == record


def test_a_record_is_written_in_the_lowest_version_that_holds_it() -> None:
    plain = PartitionChanged(TOPIC_ID, 3, (1, 2), (2,), 2, 5, 9, (TOPIC_ID, TOPIC_ID))
    stored = json.loads(encode(plain))
    assert stored["version"] == 1
    assert list(stored)[-1] == "directories"
    assert decode(encode(plain)) == plain
    for field in ("adding_replicas", "removing_replicas", "elr", "last_known_elr"):
        assert json.loads(encode(plain._replace(**{field: (2,)})))["version"] == 2


def test_many_records_are_one_array() -> None:
    records = [record for record, _ in STORED]
    assert decode_all(encode_all(records)) == records
    assert decode_all(encode_all([])) == []
    assert json.loads(encode_all(records)) == [json.loads(encode(record)) for record in records]


@settings(deadline=None)
@given(name=st.text(), value=st.none() | st.text(), resource=st.sampled_from(ResourceType))
def test_any_text_comes_back(name: str, value: str | None, resource: ResourceType) -> None:
    record = ConfigChanged(resource, name, name, value)
    assert decode(encode(record)) == record
    assert encode(record).isascii()


@pytest.mark.parametrize(
    "text",
    ['{"type":"TopicRenamed","version":1}', '{"type":"TopicDeleted","version":2}', '{"type":[],"version":1}'],
)
def test_a_newer_release_is_named(text: str) -> None:
    with pytest.raises(UnreadableRecord, match="start the broker with that release or a later one"):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        "3",
        "[]",
        "{}",
        '{"type":"TopicDeleted"}',
        '{"type":"TopicDeleted","version":1}',
        '{"type":"TopicDeleted","version":1,"topic_id":"short"}',
        '{"type":"TopicDeleted","version":1,"topic_id":[]}',
        '{"type":"BrokerFenced","version":1,"broker_id":"1"}',
        '{"type":"BrokerFenced","version":1,"broker_id":true}',
        '{"type":"ClusterCreated","version":1,"cluster_id":null}',
        '{"type":"ConfigChanged","version":1,"resource_type":"X","resource_name":"","name":"","value":""}',
        '{"type":"BrokerRegistered","version":1,"broker_id":1,"broker_epoch":1,"incarnation_id":'
        '"AAECAwQFBgcICQoLDA0ODw","listeners":[["a"]],"rack":null,"log_directories":[]}',
    ],
)
def test_damage_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UnreadableRecord, match=r"[Rr]estore .*from a backup|metadata from a backup"):
        decode(text)


def test_damaged_array() -> None:
    with pytest.raises(UnreadableRecord, match="no list of records"):
        decode_all('{"type":"BrokerFenced","version":1,"broker_id":1}')
    with pytest.raises(UnreadableRecord, match="damaged"):
        decode_all('[{"type":"BrokerFenced","version":1,"broker_id":1},{"a":1}]')
