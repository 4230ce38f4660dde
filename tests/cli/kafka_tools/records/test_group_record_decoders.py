"""Records of ``__consumer_offsets`` as Kafka's dump tool prints them (texts captured from Kafka 4.3.0)."""

# ruff: noqa: E501 -- a record is one line

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.names import parse_uuid
from moldau.cli.kafka_tools.records.group_record_decoders import group_records
from moldau.coordinators.groups import records
from moldau.coordinators.groups.consumer import records as consumer_records
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.records import Record

TOPIC_ID = parse_uuid("POjc0XOnTtapx_rUmgcbdA")
MEMBER_ID = "9XZDIdDuQ6-lbyPNg9Zrtg"


def shown(record: Any) -> str:
    key, value = group_records(Record(0, 0, *records.encode(record)))
    return f"key: {key} payload: {value}"


def test_an_offset() -> None:
    commit = records.OffsetCommit("g-classic", "orders", 0, 10, 0, "", 1794778491813, topic_id=TOPIC_ID)
    assert shown(commit) == (
        'key: {"type":"1","data":{"group":"g-classic","topic":"orders","partition":0}} '
        'payload: {"version":"4","data":{"offset":10,"leaderEpoch":0,"metadata":"","commitTimestamp":1794778491813,"topicId":"POjc0XOnTtapx_rUmgcbdA"}}'
    )
    gone = records.OffsetCommitTombstone("g-classic", "orders", 0)
    assert shown(gone).endswith(" payload: <DELETE>")


def test_a_group() -> None:
    subscription = consumer_protocol.write(ConsumerProtocolSubscription(topics=["orders"]))
    assignment = consumer_protocol.write(
        ConsumerProtocolAssignment([consumer_protocol.TopicPartition("orders", [0, 1, 2])])
    )
    member = records.GroupMember(
        "c-1", None, "console-consumer", "/127.0.0.1", 300000, 45000, subscription, assignment
    )
    group = records.GroupMetadata("g-classic", "consumer", 1, "range", "c-1", 1794778486676, (member,))
    assert shown(group) == (
        'key: {"type":"2","data":{"group":"g-classic"}} payload: {"version":"3","data":{"protocolType":"consumer","generation":1,"protocol":"range","leader":"c-1","currentStateTimestamp":1794778486676,'
        '"members":[{"memberId":"c-1","groupInstanceId":null,"clientId":"console-consumer","clientHost":"/127.0.0.1","rebalanceTimeout":300000,"sessionTimeout":45000,'
        '"subscription":{"topics":["orders"],"userData":null,"ownedPartitions":[],"generationId":-1,"rackId":null},"assignment":{"assignedPartitions":[{"topic":"orders","partitions":[0,1,2]}],"userData":null}}]}}'
    )
    odd = group._replace(members=(member._replace(subscription=b"?"),))
    assert '"subscription":"Pw=="' in shown(odd)


@pytest.mark.parametrize(
    ("kind", "key", "value", "text"),
    [
        (3, consumer_records.GroupKey("g-consumer"), consumer_records.ConsumerGroupMetadataValue(2, 6353927337640539094), '{"version":"0","data":{"epoch":2,"metadataHash":6353927337640539094}}'),
        (6, consumer_records.GroupKey("g-consumer"), consumer_records.TargetAssignmentMetadataValue(2, 1794778486495), '{"version":"0","data":{"assignmentEpoch":2,"assignmentTimestamp":1794778486495}}'),
        (7, consumer_records.MemberKey("g-consumer", MEMBER_ID), consumer_records.TargetAssignmentValue([consumer_records.TargetTopic(TOPIC_ID, [0, 1, 2])]), '{"version":"0","data":{"topicPartitions":[{"topicId":"POjc0XOnTtapx_rUmgcbdA","partitions":[0,1,2]}]}}'),
        (8, consumer_records.MemberKey("g-consumer", MEMBER_ID), consumer_records.CurrentAssignmentValue(2, 0, 0, [consumer_records.CurrentTopic(TOPIC_ID, [0, 1, 2], [2, 2, 2])], []), '{"version":"0","data":{"memberEpoch":2,"previousMemberEpoch":0,"state":0,"assignedPartitions":[{"topicId":"POjc0XOnTtapx_rUmgcbdA","partitions":[0,1,2],"assignmentEpochs":[2,2,2]}],"partitionsPendingRevocation":[]}}'),
    ],
)  # fmt: skip
def test_groups_of_the_newer_protocol(kind: int, key: Any, value: Any, text: str) -> None:
    record = Record(0, 0, records.key_bytes(kind, key), records.value_bytes(0, value))
    assert group_records(record)[1] == text


def test_a_member_of_the_newer_protocol() -> None:
    member = consumer_records.MemberMetadata(
        "g-consumer", MEMBER_ID, None, None, "app-1", "/127.0.0.1", ("orders",), "", 300000, None, None
    )
    assert shown(member) == (
        'key: {"type":"5","data":{"groupId":"g-consumer","memberId":"9XZDIdDuQ6-lbyPNg9Zrtg"}} '
        'payload: {"version":"0","data":{"instanceId":null,"rackId":null,"clientId":"app-1","clientHost":"/127.0.0.1","subscribedTopicNames":["orders"],"subscribedTopicRegex":"","rebalanceTimeoutMs":300000,"serverAssignor":null,"classicMemberMetadata":null}}'
    )


def test_what_is_not_known() -> None:
    assert group_records(Record(7, 0, b"\0\x63", None)) == (
        "Unknown record type 99 at offset 7, skipping.",
        None,
    )


@pytest.mark.slow
@given(
    key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=40), kind=st.integers(0, 16)
)
def test_no_bytes_make_a_stack_trace(key: bytes | None, value: bytes | None, kind: int) -> None:
    group_records(Record(0, 0, key, value))
    group_records(Record(0, 0, kind.to_bytes(2, "big") + (key or b""), value))
