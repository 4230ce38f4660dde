"""The JSON form of every record: stable, complete, and strict about what it cannot read."""

import inspect
import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    Endpoint,
    FeatureLevel,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceType,
    TopicCreated,
    TopicDeleted,
    UnreadableRecord,
    decode,
    decode_all,
    encode,
    encode_all,
)

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
LISTENER = Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")

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
    (BrokerUnregistered(2), {"broker_id": 2}),
    (TopicCreated(TOPIC_ID, "orders"), {"topic_id": TOPIC_ID_TEXT, "name": "orders"}),
    (
        PartitionChanged(TOPIC_ID, 3, (1, 2), (2,), 2, 5, 9, (TOPIC_ID, TOPIC_ID)),
        {
            "topic_id": TOPIC_ID_TEXT,
            "partition": 3,
            "replicas": [1, 2],
            "isr": [2],
            "leader": 2,
            "leader_epoch": 5,
            "partition_epoch": 9,
            "directories": [TOPIC_ID_TEXT, TOPIC_ID_TEXT],
        },
    ),
    (TopicDeleted(TOPIC_ID), {"topic_id": TOPIC_ID_TEXT}),
    (
        ConfigChanged(ResourceType.TOPIC, "orders", "retention.ms", None),
        {"resource_type": "TOPIC", "resource_name": "orders", "name": "retention.ms", "value": None},
    ),
    (ProducerIdsAllocated(1, 3000, 1000), {"broker_id": 1, "first_id": 3000, "count": 1000}),
]


def test_the_list_above_has_every_record_with_every_field() -> None:
    assert {type(record) for record, _ in STORED} == set(get_args(Record))
    for record, stored in STORED:
        assert list(stored) == list(inspect.signature(type(record)).parameters)


@pytest.mark.parametrize(("record", "stored"), STORED, ids=lambda value: type(value).__name__)
def test_stored_form(record: Record, stored: dict[str, Any]) -> None:
    value = {"type": type(record).__name__, "version": 1, **stored}
    assert json.loads(encode(record)) == value
    assert decode(json.dumps(value)) == record


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
