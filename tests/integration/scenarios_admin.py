"""Scenarios about topics, configs and the cluster."""

import pytest

from tests.integration.client_contract import Client, Refused, Sent, values
from tests.integration.scenario_table import needing, scenario


def refusal(name: str) -> "pytest.RaisesExc[Refused]":
    return pytest.raises(Refused, match=f"^{name}$")


@scenario
def create_describe_and_delete_a_topic(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=4, configs={"retention.ms": "1234567"})
    assert client.topics()[topic] == 4
    assert client.configs(topic)["retention.ms"] == "1234567"
    with refusal("TOPIC_ALREADY_EXISTS"):
        client.create_topic(topic)
    client.delete_topic(topic)
    assert topic not in client.topics()
    with refusal("UNKNOWN_TOPIC_OR_PARTITION"):
        client.delete_topic(topic)


@scenario
def a_topic_that_cannot_be(client: Client, topic: str) -> None:
    with refusal("INVALID_TOPIC_EXCEPTION"):
        client.create_topic("not a name")
    with refusal("INVALID_PARTITIONS"):
        client.create_topic(topic, partitions=0)
    with refusal("INVALID_CONFIG"):
        client.create_topic(topic, configs={"retention.ms": "soon"})
    assert topic not in client.topics()


@scenario
def a_topic_made_anew_is_empty(client: Client, topic: str) -> None:
    client.create_topic(topic)
    producer = client.producer()
    producer.send(topic, Sent(b"old"))
    assert producer.flush() == [0]
    client.delete_topic(topic)
    client.create_topic(topic)
    again = client.producer()
    again.send(topic, Sent(b"new"))
    assert again.flush() == [0]
    consumer = client.consumer()
    consumer.assign(topic, {0: 0})
    assert values(consumer.poll(1)) == [b"new"]


@scenario
def more_partitions(client: Client, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    client.create_partitions(topic, 5)
    assert client.topics()[topic] == 5
    with refusal("INVALID_PARTITIONS"):
        client.create_partitions(topic, 3)
    producer = client.producer()
    producer.send(topic, Sent(b"in the last one"), partition=4)
    assert producer.flush() == [0]


@scenario
def configs_as_a_whole(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "1000", "segment.bytes": "2000000"})
    client.replace_configs(topic, {"retention.ms": "2000"})
    found = client.configs(topic)
    assert found["retention.ms"] == "2000"
    assert found["cleanup.policy"] == "delete"
    with refusal("INVALID_CONFIG"):
        client.replace_configs(topic, {"no.such.thing": "1"})


@needing("alter_configs")
def configs_one_by_one(client: Client, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "1000"})
    client.alter_configs(topic, {"max.message.bytes": "5000"})
    found = client.configs(topic)
    assert (found["retention.ms"], found["max.message.bytes"]) == ("1000", "5000")
    client.alter_configs(topic, {"retention.ms": None})
    assert client.configs(topic)["retention.ms"] == "604800000"
    with refusal("INVALID_CONFIG"):
        client.alter_configs(topic, {"max.message.bytes": "many"})


@scenario
def configs_of_the_broker(client: Client, topic: str) -> None:
    (broker_id,) = client.cluster().broker_ids
    found = client.broker_configs(broker_id)
    assert found["node.id"] == str(broker_id)
    assert found["auto.create.topics.enable"] == "true"


@scenario
def delete_records(client: Client, topic: str) -> None:
    client.create_topic(topic)
    producer = client.producer()
    for number in range(10):
        producer.send(topic, Sent(b"%d" % number))
    producer.flush()
    assert client.delete_records(topic, 0, 6) == 6
    assert client.delete_records(topic, 0, 3) == 6
    consumer = client.consumer()
    consumer.assign(topic, {0: 6})
    assert values(consumer.poll(4)) == [b"6", b"7", b"8", b"9"]
    assert client.delete_records(topic, 0, -1) == 10
    with refusal("OFFSET_OUT_OF_RANGE"):
        client.delete_records(topic, 0, 11)


@scenario
def describe_cluster(client: Client, topic: str) -> None:
    found = client.cluster()
    assert found.controller_id in found.broker_ids
    assert len(found.broker_ids) == 1
