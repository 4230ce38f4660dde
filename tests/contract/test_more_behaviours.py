"""Odd requests beyond the captured cases: what a real Kafka 4.3.0 answered when both were asked."""

from collections.abc import Iterator

import pytest

from moldau.protocol.errors import MALFORMED_REQUEST
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_producers import DescribeProducersRequest
from moldau.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest
from moldau.protocol.records import ATTRIBUTES_AT
from moldau.testing import Broker
from tests.contract.batches import batch, patched, with_payload
from tests.contract.golden import comparable
from tests.contract.replays.fetch import fetch
from tests.contract.scene import Scene

TRANSACTIONAL = 0x10
TIMESTAMP = 1_000_000
TOPIC_MISSING = "This server does not host this topic-partition."
BAD_NAME = (
    "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
    "and '-'"
)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Broker({"node.id": "1"}) as broker:
        made = Scene(broker)
        made.create("known")
        yield made
        made.close()


def produced(scene: Scene, records: bytes) -> tuple[int, int, str | None]:
    """Error code, log start offset and message."""
    answer = scene.produce("known", records)
    result = answer["Responses"][0]["PartitionResponses"][0]
    return result["ErrorCode"], result["LogStartOffset"], result["ErrorMessage"]


FINE = batch(timestamp=TIMESTAMP)


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        pytest.param(
            patched(FINE, ATTRIBUTES_AT, "h", TRANSACTIONAL), (53, -1, None), id="transactional without an id"
        ),
        pytest.param(
            patched(FINE, 8, "i", 0),
            (2, -1, "Record size 0 is less than the minimum record overhead (14)"),
            id="no length",
        ),
        pytest.param(
            patched(FINE, 8, "i", -1),
            (2, -1, "Record size -1 is less than the minimum record overhead (14)"),
            id="negative length",
        ),
        pytest.param(patched(FINE, 8, "i", 48), (2, -1, None), id="a length short of a header"),
        pytest.param(patched(FINE, 8, "i", len(FINE)), (87, -1, None), id="a length beyond the end"),
        pytest.param(with_payload(FINE, b"\0"), (87, 0, None), id="a record of no bytes"),
        pytest.param(with_payload(FINE, b"\x0asmall"), (87, 0, None), id="a record too short to be one"),
        pytest.param(with_payload(FINE, b""), (87, 0, None), id="no records"),
    ],
)
def test_produce(scene: Scene, records: bytes, outcome: tuple[int, int, str | None]) -> None:
    assert produced(scene, records) == outcome


@pytest.mark.parametrize("attributes", [0x40, 0x80, 0x7F80])
def test_flags_that_mean_nothing_to_a_producer_are_let_through(scene: Scene, attributes: int) -> None:
    assert produced(scene, patched(FINE, ATTRIBUTES_AT, "h", attributes)) == (0, 0, None)


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_before_their_time(scene: Scene, version: int) -> None:
    asked = [MetadataRequestTopic(scene.topic_id("known"), "known"), MetadataRequestTopic(name="other")]
    answer = scene.ask(MetadataRequest(asked, False), version)
    assert [(topic["ErrorCode"], topic["Name"]) for topic in answer["Topics"]] == [
        (42, "known"),
        (42, "other"),
    ]
    assert answer["Brokers"] == []


@pytest.mark.parametrize("kind", [0, 3, -1])
def test_endpoints_that_do_not_exist(scene: Scene, kind: int) -> None:
    answer = scene.ask(DescribeClusterRequest(False, kind), 2)
    assert (answer["ErrorCode"], answer["ErrorMessage"]) == (115, f"Unsupported endpoint type {kind}")


def test_a_cursor_to_a_topic_that_was_not_asked_for(scene: Scene) -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("known")], 2, Cursor("another", 0))
    (topic,) = scene.ask(request, 0)["Topics"]
    assert (topic["ErrorCode"], topic["Name"], topic["Partitions"]) == (42, "known", [])


@pytest.mark.parametrize(
    ("producer_id", "epoch", "code"), [(5, -1, 42), (-1, 3, 42), (5, 3, 0), (-1, -1, 0), (-5, -5, 0)]
)
def test_a_producer_id_goes_with_an_epoch(scene: Scene, producer_id: int, epoch: int, code: int) -> None:
    assert scene.ask(InitProducerIdRequest(None, 1000, producer_id, epoch), 5)["ErrorCode"] == code


@pytest.mark.parametrize(
    ("topic", "partition", "code", "message"),
    [("missing", 0, 3, TOPIC_MISSING), ("a b", 0, 17, BAD_NAME), ("known", 9, 3, None)],
)
def test_producers_of_what_is_not_there(
    scene: Scene, topic: str, partition: int, code: int, message: str | None
) -> None:
    answer = scene.ask(DescribeProducersRequest([ProducersOfTopic(topic, [partition])]), 0)
    (result,) = answer["Topics"][0]["Partitions"]
    assert (result["ErrorCode"], result["ErrorMessage"]) == (code, message)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_key_type_of_the_future(scene: Scene, version: int) -> None:
    answer = scene.ask(FindCoordinatorRequest("key", 2), version)
    assert (answer["ErrorCode"], answer["ErrorMessage"]) == (42, MALFORMED_REQUEST)


def test_telemetry_of_nobody(scene: Scene) -> None:
    assert scene.ask(PushTelemetryRequest(bytes(16), 5), 0)["ErrorCode"] == 42
    assert scene.ask(PushTelemetryRequest(b"x" * 16, 5), 0)["ErrorCode"] == 117


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("+1", ""),
        ("01", ""),
        (" 1", "Broker id must be an integer, but it is:  1"),
        ("1_0", "Broker id must be an integer, but it is: 1_0"),
        ("1.0", "Broker id must be an integer, but it is: 1.0"),
        ("99999999999", "Broker id must be an integer, but it is: 99999999999"),
    ],
)
def test_ids_of_brokers(scene: Scene, name: str, message: str) -> None:
    asked = [DescribeConfigsResource(4, name, ["log.retention.ms"])]
    (result,) = scene.ask(DescribeConfigsRequest(asked), 4)["Results"]
    assert (result["ErrorCode"], result["ErrorMessage"]) == (42 if message else 0, message)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (4, "abc", "Node id must be an integer, but it is: abc"),
        (4, "2", "Unexpected broker id, expected 1, but received 2"),
        (8, "", "Node id must be an integer, but it is: "),
        (8, "2", "Unexpected node id. Expected 1, but received 2"),
        (16, "", "Subscription name can't be empty"),
    ],
)
def test_configs_of_others(scene: Scene, kind: int, name: str, message: str) -> None:
    asked = [AlterConfigsResource(kind, name, [AlterableConfig("root", 0, "INFO")])]
    (answer,) = scene.ask(IncrementalAlterConfigsRequest(asked, True), 1)["Responses"]
    assert (answer["ErrorCode"], answer["ErrorMessage"]) == (42, message)


def test_isolation_levels_that_do_not_exist(scene: Scene) -> None:
    """Here Kafka fails with UNKNOWN_SERVER_ERROR."""
    request = fetch(0, "known")
    request.isolation_level = 5
    assert scene.ask(request, 12)["ErrorCode"] == 42
    asked = [ListOffsetsTopic("known", [ListOffsetsPartition(0, -1, -1)])]
    answer = scene.ask(ListOffsetsRequest(-1, 7, asked), 11)
    assert comparable(answer["Topics"][0]["Partitions"][0])["ErrorCode"] == 42
