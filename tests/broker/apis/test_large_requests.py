"""Every API, asked as a small and as a large request: the answers are the same."""

from functools import partial
from typing import Any

import pytest

from moldau.broker.bounds.pieces import cut, cut_topics
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.apis.asking import (
    Ask,
    batch,
    new_producer,
    open_coordinator,
    produce_request,
    stable_member,
)
from tests.broker.giant_requests import giants
from tests.broker.random_requests import ROUTES, RandomRequests

#: Answered by what is there, without changing it.
READ_ONLY = (
    ApiKey.METADATA,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_LOG_DIRS,
)
CUT = ("offset_commit", "offset_fetch", "txn_offset_commit")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions in a piece, so that a handful of them are many."""
    for name in CUT:
        pieces = lambda topics, field="partitions", most=2: cut_topics(topics, field, 2)  # noqa: E731
        monkeypatch.setattr(f"moldau.broker.apis.{name}.cut_topics", pieces)
    for name in ("create_topics", "create_partitions", "delete_topics"):
        monkeypatch.setattr(f"moldau.broker.apis.{name}.cut", partial(cut, most=2))


@pytest.fixture
def scene(ask: Ask) -> Ask:
    ask.broker.create_topic("known", 5)
    for key_type in (0, 1):
        open_coordinator(ask, key_type)
    return ask


@pytest.mark.parametrize("key", READ_ONLY)
def test_what_only_reads_answers_the_same(scene: Ask, small_pieces: None, key: ApiKey) -> None:
    stable_member(scene, "known")
    for version in (version for each, version in ROUTES if each == key):
        for seed in range(15):
            requests = RandomRequests(seed, scene.topic_id("known"))
            request = requests.request(key, version)
            if hasattr(request, "allow_auto_topic_creation"):
                request.allow_auto_topic_creation = False
            assert scene(request, version) == scene(request, version, large=True), (version, seed)


def commit(version: int, ask: Ask, offset: int, *, topics: int = 3) -> OffsetCommitRequest:
    names = ["known", "missing", "known"][:topics]
    return OffsetCommitRequest(
        "group",
        topics=[
            OffsetCommitRequestTopic(
                name if version < 10 else "",
                ask.topic_id("known") if version >= 10 and name == "known" else bytes(16),
                [OffsetCommitRequestPartition(index, offset + index) for index in (0, 1, 9, 2, 3, 4)],
            )
            for name in names
        ],
    )


@pytest.mark.parametrize("version", [2, 8, 10])
def test_offsets_are_committed_and_fetched_piece_by_piece(
    scene: Ask, small_pieces: None, version: int
) -> None:
    answers = [scene(commit(version, scene, 100), version, large=large) for large in (False, True)]
    assert answers[0] == answers[1]
    codes = [partition.error_code for partition in answers[1].topics[0].partitions]
    assert codes == [0] * 5 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    scene(commit(version, scene, 500, topics=1), version, large=True)
    wanted = [OffsetFetchRequestTopic("known", [0, 1, 2, 3, 4])]
    fetched = scene(OffsetFetchRequest("group", wanted), 7, large=True)
    assert [each.committed_offset for each in fetched.topics[0].partitions] == [500, 501, 502, 503, 504]
    topics = [OffsetFetchRequestTopics("known", partition_indexes=[0, 1, 2, 3, 4])] * 2
    group = OffsetFetchRequestGroup("group", topics=topics)
    fetched = scene(OffsetFetchRequest(groups=[group]), 9, large=True)
    assert [[each.committed_offset for each in topic.partitions] for topic in fetched.groups[0].topics] == [
        [500, 501, 502, 503, 504]
    ] * 2


def test_a_refused_commit_is_refused_in_every_piece(scene: Ask, small_pieces: None) -> None:
    stable_member(scene, "group")
    answer = scene(commit(8, scene, 1), 8, large=True)
    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def produce(acks: int, *names: str) -> ProduceRequest:
    topics = [
        TopicProduceData(
            name,
            partition_data=[PartitionProduceData(index, batch(b"%d" % index)) for index in (0, 1, 9, 2, 3)],
        )
        for name in names
    ]
    return ProduceRequest(None, acks, 5000, topics)


def test_very_many_partitions_are_appended_to_piece_by_piece(scene: Ask, small_pieces: None) -> None:
    answers = [scene(produce(-1, "known", "missing", "known"), 12, large=large) for large in (False, True)]
    for answer in answers:
        assert [topic.name for topic in answer.responses] == ["known", "missing", "known"]
    codes = [[each.error_code for each in topic.partition_responses] for topic in answers[1].responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[0, 0, unknown, 0, 0], [unknown] * 5, [0, 0, unknown, 0, 0]]
    offsets = [each.base_offset for each in answers[1].responses[2].partition_responses]
    assert offsets == [3, 3, -1, 3, 3]


def test_answers_that_wait_for_the_disk_are_joined(scene: Ask, small_pieces: None) -> None:
    scene.broker.create_topic("flushed", 5, {"flush.messages": "1"})
    answer = scene(produce(-1, "flushed"), 12, large=True)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 0]


def test_transactions_over_very_many_partitions(scene: Ask, small_pieces: None) -> None:
    producer_id, epoch = new_producer(scene)
    records = batch(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    data = [PartitionProduceData(index, records) for index in range(5)]
    topic = TopicProduceData("known", partition_data=data)
    answer = scene(ProduceRequest("t", -1, 5000, [topic]), 12, large=True)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0] * 5


# --- fetches ----------------------------------------------------------------------------------------

MANY = 250


def fetch(topic: str, max_wait_ms: int, *, min_bytes: int = 1) -> FetchRequest:
    wanted = [FetchPartition(index, partition_max_bytes=1 << 20) for index in range(MANY)]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[FetchTopic(topic, partitions=wanted)]
    )


def records_of(answer: Any) -> dict[int, int]:
    return {
        each.partition_index: len(each.records)
        for topic in answer.responses
        for each in topic.partitions
        if each.records
    }


def test_a_fetch_of_very_many_partitions(ask: Ask) -> None:
    ask.broker.create_topic("many", MANY)
    for index in (0, 130, 249):
        ask(produce_request("many", batch(b"v"), partition=index), 12)
    answer = ask(fetch("many", 0), 12)
    assert len(answer.responses[0].partitions) == MANY
    assert set(records_of(answer)) == {0, 130, 249}


def test_a_fetch_of_very_many_partitions_is_woken_by_any_of_them(ask: Ask) -> None:
    ask.broker.create_topic("many", MANY)
    size = len(batch(b"v"))
    waiting = ask.later(fetch("many", 60_000, min_bytes=2 * size), 12)
    assert waiting.waits
    ask(produce_request("many", batch(b"v"), partition=249), 12)
    assert waiting.waits, "one batch is not enough"
    ask(produce_request("many", batch(b"v"), partition=3), 12)
    assert records_of(waiting.response()) == {3: size, 249: size}


def test_a_fetch_of_very_many_partitions_ends_when_its_time_is_up(ask: Ask) -> None:
    ask.broker.create_topic("many", MANY)
    waiting = ask.later(fetch("many", 60_000), 12)
    assert waiting.waits
    ask.broker.clock.advance(60)
    assert records_of(waiting.response()) == {}


# --- names that are repeated ------------------------------------------------------------------------


def test_a_resource_that_is_described_again_and_again_is_described_once(scene: Ask) -> None:
    resources = [DescribeConfigsResource(4, "1", None), *[DescribeConfigsResource(2, "known", ["a"])] * 500]
    resources += [DescribeConfigsResource(2, "known", ["retention.ms"])] * 500
    answer = scene(DescribeConfigsRequest(resources * 3), large=True)
    assert [(each.resource_type, each.resource_name) for each in answer.results] == [(4, "1"), (2, "known")]
    assert [each.name for each in answer.results[1].configs] == ["retention.ms"], "all that was asked for"
    assert len(answer.results[0].configs) > 100


def test_other_names_that_are_repeated_are_described_once(scene: Ask) -> None:
    answer = scene(DescribeProducersRequest([TopicRequest("known", [0, 1, 0, 1])] * 3), large=True)
    assert [len(topic.partitions) for topic in answer.topics] == [2, 0, 0]
    states = scene(DescribeTransactionsRequest(["t", "u", "t"])).transaction_states
    assert [state.transactional_id for state in states] == ["t", "u"]


@pytest.mark.parametrize("key", [ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS])
def test_topics_by_the_hundred(scene: Ask, small_pieces: None, key: ApiKey) -> None:
    """The same outcomes in pieces, though names are counted over the whole request."""
    version = {ApiKey.CREATE_TOPICS: 4, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 6}[key]
    giant = next(each for each in giants(key, version, 9) if "." not in each.array)
    items = getattr(giant.message, giant.array)
    items.append(items[4])
    answer = scene(giant.message, version, large=True)
    (listed,) = (value for name in answer.__slots__ if isinstance(value := getattr(answer, name), list))
    assert len(listed) == 9, "a name that stands twice is answered once"
    assert any(each.error_code == ErrorCode.INVALID_REQUEST for each in listed)
