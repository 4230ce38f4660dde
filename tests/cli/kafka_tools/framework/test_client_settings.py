"""Settings of the Java clients as options of ours."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from typing import Any

import pytest

from moldau.cli.kafka_tools.framework.client_settings import (
    consumer_options,
    group_options,
    producer_options,
    serialized_size,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.consumer.consumer import BEGINNING, END, ConsumerOptions
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.producer.sender import ProducerOptions
from moldau.protocol.compression import Compression


def test_every_producer_setting_has_its_option() -> None:
    options = producer_options(
        {
            "acks": "all",
            "compression.type": "zstd",
            "compression.zstd.level": "5",
            "enable.idempotence": "true",
            "batch.size": "1",
            "linger.ms": "2",
            "max.request.size": "3",
            "buffer.memory": "4",
            "max.in.flight.requests.per.connection": "5",
            "request.timeout.ms": "6",
            "delivery.timeout.ms": "7",
            "max.block.ms": "8",
            "no.such.setting": "9",
        }
    )
    made = ProducerOptions(**options)
    assert made == ProducerOptions(-1, Compression.ZSTD, 5, True, 1, 2, 3, 4, 5, 6, 7, 8)
    assert ProducerOptions(**producer_options({})) == ProducerOptions()


def test_every_consumer_setting_has_its_option() -> None:
    options = consumer_options(
        {
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": "1",
            "fetch.min.bytes": "2",
            "fetch.max.bytes": "3",
            "max.partition.fetch.bytes": "4",
            "check.crcs": "false",
            "client.rack": "r",
        }
    )
    assert ConsumerOptions(**options) == ConsumerOptions(
        1, 2, 3, 4, 1, False, offset_reset=BEGINNING, rack_id="r"
    )
    assert consumer_options({})["offset_reset"] == END
    assert consumer_options({"auto.offset.reset": "none"})["offset_reset"] is None


@pytest.mark.parametrize(
    ("read", "properties", "message"),
    [
        (producer_options, {"acks": "7"}, "Invalid value 7 for configuration acks: String must be one of: all, -1, 0, 1"),
        (producer_options, {"compression.type": "foo"}, "Invalid value foo for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd"),
        (producer_options, {"linger.ms": "abc"}, "Invalid value abc for configuration linger.ms: Not a number of type LONG"),
        (producer_options, {"enable.idempotence": "true", "acks": "1"}, "Must set acks to all in order to use the idempotent producer."),
        (producer_options, {"transactional.id": "t"}, "transactional.id: this tool writes without transactions"),
        (consumer_options, {"isolation.level": "foo"}, "Invalid value foo for configuration isolation.level: String must be one of: read_committed, read_uncommitted"),
        (consumer_options, {"auto.offset.reset": "x"}, "Invalid value x for configuration auto.offset.reset: String must be one of: earliest, latest, none"),
    ],
)  # fmt: skip
def test_values_that_are_refused(read: Any, properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError) as error:
        read(properties)
    assert error.value.message == message


def test_the_size_that_the_java_client_names() -> None:
    assert serialized_size(None, bytes(2_000_000)) == 2_000_088
    assert serialized_size(None, bytes(5_000_000)) == 5_000_088
    assert serialized_size(b"k", b"", (("h", None),)) == 61 + 21 + 2 + 1 + 1 + 3


def test_settings_of_a_member() -> None:
    options = group_options(
        {
            "group.protocol": "CLASSIC",
            "session.timeout.ms": "1",
            "max.poll.interval.ms": "2",
            "heartbeat.interval.ms": "3",
            "group.instance.id": "i",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor, range",
            "enable.auto.commit": "false",
        }
    )
    assert options == {
        "membership": MembershipOptions(1, 2, 3, ("roundrobin", "range"), "i"),
        "auto_commit": False,
    }
    newer = group_options({"group.protocol": "consumer", "group.remote.assignor": "uniform"})
    assert newer == {"membership": MembershipOptions(protocol="consumer", server_assignor="uniform")}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"group.protocol": "consumer", "session.timeout.ms": "1", "heartbeat.interval.ms": "1"},
            "heartbeat.interval.ms, session.timeout.ms cannot be set when group.protocol=CONSUMER",
        ),
        ({"group.remote.assignor": "x"}, "group.remote.assignor cannot be set when group.protocol=CLASSIC"),
    ],
)
def test_settings_of_the_other_protocol(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError) as error:
        group_options(properties)
    assert error.value.message == message
