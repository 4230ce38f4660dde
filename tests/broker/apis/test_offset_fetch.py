"""OffsetFetch: where groups have got to, by name and by id, one group or many."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.end_txn import EndTxnRequest
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
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.apis.asking import NOWHERE, Ask, begin_transaction, open_coordinator


@pytest.fixture
def filled(ask: Ask) -> Ask:
    """The group ``g`` is at offset 5 of ``orders``."""
    open_coordinator(ask, 0)
    ask.broker.create_topic("orders", 2)
    commit(ask, 5)
    return ask


def commit(ask: Ask, offset: int) -> None:
    offsets = [OffsetCommitRequestPartition(0, offset, -1, "note")]
    topics = [OffsetCommitRequestTopic("orders", bytes(16), offsets)]
    ask(OffsetCommitRequest("g", -1, "", topics=topics), 9)


def of_groups(*groups: str, topics: list[OffsetFetchRequestTopics] | None = None) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(each, None, -1, topics) for each in groups])


def test_a_partition_without_an_offset_has_none(filled: Ask) -> None:
    asked = [OffsetFetchRequestTopics("orders", bytes(16), [0, 1])]
    (group,) = filled(of_groups("g", topics=asked), 9).groups
    assert (group.group_id, group.error_code) == ("g", 0)
    found = [(each.committed_offset, each.metadata, each.error_code) for each in group.topics[0].partitions]
    assert found == [(5, "note", 0), (-1, "", 0)]


def test_all_that_is_committed_by_many_groups(filled: Ask) -> None:
    one, other = filled(of_groups("g", "other"), 9).groups
    assert [(each.name, each.partitions[0].committed_offset) for each in one.topics] == [("orders", 5)]
    assert (other.group_id, other.topics, other.error_code) == ("other", [], 0)


def test_one_group_before_version_8(filled: Ask) -> None:
    asked = [OffsetFetchRequestTopic("orders", [0])]
    response = filled(OffsetFetchRequest("g", asked), 7)
    assert (response.error_code, response.topics[0].name) == (0, "orders")
    assert response.topics[0].partitions[0].committed_offset == 5


def test_topics_go_by_id_from_version_10(filled: Ask) -> None:
    topic_id = filled.topic_id("orders")
    asked = [OffsetFetchRequestTopics("", topic_id, [0]), OffsetFetchRequestTopics("", NOWHERE, [3])]
    (group,) = filled(of_groups("g", topics=asked), 10).groups
    found, unknown = group.topics
    assert (found.topic_id, found.partitions[0].committed_offset) == (topic_id, 5)
    assert (unknown.topic_id, unknown.partitions[0].partition_index) == (NOWHERE, 3)
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (group,) = filled(of_groups("g"), 10).groups
    assert [each.topic_id for each in group.topics] == [topic_id]


def test_an_offset_that_waits_for_its_transaction(filled: Ask) -> None:
    identity = begin_transaction(filled, "orders")
    offsets = [TxnOffsetCommitRequestPartition(0, 8, -1, "")]
    topics = [TxnOffsetCommitRequestTopic("orders", offsets)]
    filled(TxnOffsetCommitRequest("t", "g", *identity, -1, "", None, topics), 5)
    request = of_groups("g")
    (loose,) = filled(request, 9).groups[0].topics[0].partitions
    assert (loose.committed_offset, loose.error_code) == (5, 0)
    request.require_stable = True
    (strict,) = filled(request, 9).groups[0].topics[0].partitions
    assert (strict.committed_offset, strict.error_code) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    filled(EndTxnRequest("t", *identity, True), 4)
    (strict,) = filled(request, 9).groups[0].topics[0].partitions
    assert (strict.committed_offset, strict.error_code) == (8, 0)


def test_without_a_coordinator(ask: Ask) -> None:
    (group,) = ask(of_groups("g"), 9).groups
    assert (group.group_id, group.error_code) == ("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert ask(OffsetFetchRequest("g", None), 7).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
