"""Groups from the outside: against a broker that is told what to say, and against our own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.groups.descriptions import CommittedOffset, GroupDescription, GroupListing
from moldau.client.groups.group_consumer import GroupConsumer
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_fetch,
)
from moldau.testing import Broker

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
QUICK = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "api_timeout_ms": 500}


def run(broker: Any, use: Callable[[Groups], Awaitable[Any]]) -> Any:
    async def inside() -> Any:
        async with broker, await Cluster.open(broker.address, **QUICK) as cluster:
            return await use(Groups(cluster))

    return asyncio.run(inside())


def is_coordinator(broker: Any) -> None:
    def answer(request: Any, version: int) -> Any:
        one = find_coordinator.Coordinator(request.key, 1, "127.0.0.1", broker.port, 0, None)
        if version >= 4:
            one.key = request.coordinator_keys[0]
            return find_coordinator.FindCoordinatorResponse(coordinators=[one])
        return find_coordinator.FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    broker.handlers[ApiKey.FIND_COORDINATOR] = answer


def test_a_coordinator_that_is_not_there_yet_is_asked_for_again(scripted: Any) -> None:
    calls = []

    def answer(request: Any) -> Any:
        calls.append(request)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if len(calls) < 3 else 0
        one = find_coordinator.Coordinator("g", 1, "127.0.0.1", 1, code, None)
        return find_coordinator.FindCoordinatorResponse(coordinators=[one])

    broker = scripted({ApiKey.FIND_COORDINATOR: answer})
    found = run(broker, lambda groups: groups.coordinator("g"))
    assert (found.node_id, len(calls)) == (1, 3)


def test_an_old_broker_is_asked_in_old_words(scripted: Any) -> None:
    def fetch(request: Any, version: int) -> Any:
        assert version == 5
        assert (request.group_id, request.topics) == ("g", None)
        part = offset_fetch.OffsetFetchResponsePartition(1, 7, 3, "note", 0)
        none = offset_fetch.OffsetFetchResponsePartition(0, -1, -1, "", 0)
        topic = offset_fetch.OffsetFetchResponseTopic("orders", [none, part])
        return offset_fetch.OffsetFetchResponse(topics=[topic])

    broker = scripted({ApiKey.OFFSET_FETCH: fetch})
    is_coordinator(broker)
    broker.api_versions = {10: (0, 2), 9: (1, 5), 3: (0, 12), 18: (0, 4)}
    assert run(broker, lambda groups: groups.committed("g")) == {P1: CommittedOffset(7, 3, "note")}


def test_a_group_of_the_newer_protocol_is_described_by_its_own_api(scripted: Any) -> None:
    def describe(request: Any) -> Any:
        assignment = consumer_group_describe.Assignment(
            [consumer_group_describe.TopicPartitions(bytes(16), "orders", [0, 1])]
        )
        member = consumer_group_describe.Member(
            member_id="m", member_epoch=4, client_id="c", client_host="/h", member_type=1,
            subscribed_topic_names=["orders"], assignment=assignment, target_assignment=assignment,
        )  # fmt: skip
        group = consumer_group_describe.DescribedGroup(
            group_id="g", group_state="Stable", group_epoch=4, assignment_epoch=3, assignor_name="uniform",
            members=[member],
        )  # fmt: skip
        if request.group_ids != ["g"]:
            group = consumer_group_describe.DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=request.group_ids[0]
            )
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=[group])

    def describe_classic(request: Any) -> Any:
        group = describe_groups.DescribedGroup(group_id=request.groups[0], group_state="Dead")
        return describe_groups.DescribeGroupsResponse(groups=[group])

    broker = scripted({ApiKey.CONSUMER_GROUP_DESCRIBE: describe, ApiKey.DESCRIBE_GROUPS: describe_classic})
    is_coordinator(broker)
    found = run(broker, lambda groups: groups.describe(["g", "dead"]))
    group = found["g"]
    assert isinstance(group, GroupDescription)
    assert (group.group_type, group.group_epoch, group.target_assignment_epoch) == ("Consumer", 4, 3)
    assert group.members[0].assignment == (P0, P1)
    assert group.members[0].upgraded is True
    assert group.owner(P1) == group.members[0]
    assert found["dead"].code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_that_are_no_consumers_have_no_partitions(scripted: Any) -> None:
    member = describe_groups.DescribedGroupMember("m", None, "c", "/h", b"\xff", b"\xff")

    def describe(request: Any) -> Any:
        groups = [
            describe_groups.DescribedGroup(
                group_id=group_id, group_state="Stable", protocol_type=kind, members=[member]
            )
            for group_id, kind in ((request.groups[0], request.groups[0]),)
        ]
        return describe_groups.DescribeGroupsResponse(groups=groups)

    broker = scripted({ApiKey.DESCRIBE_GROUPS: describe})
    is_coordinator(broker)
    found = run(broker, lambda groups: groups.describe(["connect", "consumer"]))
    assert [group.members[0].assignment for group in found.values()] == [(), ()]


def test_lists_of_all_brokers_are_one(scripted: Any) -> None:
    calls = []

    def answer(request: Any) -> Any:
        calls.append(request)
        if len(calls) == 1:
            return list_groups.ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        listed = list_groups.ListedGroup("g", "consumer", "Stable", "consumer")
        return list_groups.ListGroupsResponse(groups=[listed])

    broker = scripted({ApiKey.LIST_GROUPS: answer})
    found = run(broker, lambda groups: groups.list(states=["Stable"]))
    assert found == [GroupListing("g", "consumer", "Stable", "Consumer")]
    assert calls[1].states_filter == ["Stable"]


def test_commits_meet_their_coordinator_in_the_end(scripted: Any) -> None:
    calls = []

    def answer(request: Any) -> Any:
        calls.append(request)
        code = ErrorCode.NOT_COORDINATOR if len(calls) == 1 else ErrorCode.UNKNOWN_MEMBER_ID
        part = offset_commit.OffsetCommitResponsePartition(0, code)
        topic = offset_commit.OffsetCommitResponseTopic(name="orders", partitions=[part])
        return offset_commit.OffsetCommitResponse(topics=[topic])

    broker = scripted({ApiKey.OFFSET_COMMIT: answer})
    is_coordinator(broker)
    found = run(broker, lambda groups: groups.commit("g", {P0: CommittedOffset(3, 1, "x")}))
    assert found[P0].code == ErrorCode.UNKNOWN_MEMBER_ID
    assert calls[1].topics[0].partitions[0].committed_metadata == "x"


def test_each_deletion_has_its_outcome(scripted: Any) -> None:
    def answer(request: Any) -> Any:
        code = ErrorCode.NON_EMPTY_GROUP if request.groups_names == ["busy"] else 0
        result = delete_groups.DeletableGroupResult(request.groups_names[0], code)
        return delete_groups.DeleteGroupsResponse(results=[result])

    broker = scripted({ApiKey.DELETE_GROUPS: answer})
    is_coordinator(broker)
    found = run(broker, lambda groups: groups.delete(["busy", "idle"]))
    assert found["busy"].code == ErrorCode.NON_EMPTY_GROUP
    assert found["idle"] is None


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        running.create_topic("orders", 2)
        yield running


def test_against_our_own_broker(broker: Broker) -> None:
    async def work() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            groups = Groups(cluster)
            offsets = {P0: CommittedOffset(5, 0, "half way"), P1: CommittedOffset(0)}
            raise_errors(await groups.commit("own", offsets))
            assert await groups.committed("own") == offsets
            assert await groups.committed("own", [P1]) == {P1: CommittedOffset(0)}
            missing = await groups.commit("own", {TopicPartition("nope", 0): CommittedOffset(1)})
            assert [e.code for e in missing.values() if e] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert await groups.delete_offsets("own", [P0]) == {P0: None}
            assert await groups.committed("own") == {P1: CommittedOffset(0)}
            with pytest.raises(KafkaError) as refused:
                await groups.delete_offsets("nobody", [P0])
            assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
            async with GroupConsumer(cluster, "own", ["orders"]) as consumer:
                await consumer.join()
                (deleted,) = (await groups.delete(["own"])).values()
                assert deleted is not None
                assert deleted.code == ErrorCode.NON_EMPTY_GROUP
                refusals = await groups.delete_offsets("own", [P1])
                assert refusals[P1] is not None
                assert refusals[P1].code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                from_outside = await groups.commit("own", offsets)
                assert {e.code for e in from_outside.values() if e} == {ErrorCode.UNKNOWN_MEMBER_ID}
            assert await groups.delete(["own"]) == {"own": None}

    asyncio.run(work())
