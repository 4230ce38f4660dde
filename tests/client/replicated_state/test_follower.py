"""A compacted topic is created, checked, read to its end and followed."""

import asyncio
import logging

import pytest

from moldau.client.replicated_state.follower import Follower, TopicRecord
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import KafkaError


def followed(broker, work=None, **options):
    """Opens a follower of the topic ``notes``, runs work and returns what was applied."""
    applied: list[TopicRecord] = []

    async def run():
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            follower = Follower(cluster, "notes", applied.append, timeout_ms=5_000, **options)
            await follower.open()
            try:
                if work is not None:
                    await work(follower)
            finally:
                await follower.close()

    asyncio.run(run())
    return applied


def test_what_is_there_is_applied_and_what_comes_too(broker):
    broker.create_topic("notes", configs={"cleanup.policy": "compact"})
    broker.produce("notes", "1", key="a")

    async def work(follower):
        assert follower.position == 1
        await asyncio.to_thread(broker.produce, "notes", None, key="a")
        await follower.wait_for(1)

    found = followed(broker, work)
    assert [(each.offset, each.key, each.value) for each in found] == [(0, b"a", b"1"), (1, b"a", None)]


def test_a_topic_that_is_missing_is_created(broker):
    assert followed(broker) == []
    assert broker.topics() == ["notes"]


def test_a_topic_that_loses_records_is_warned_of(broker, caplog):
    broker.create_topic("notes", configs={"cleanup.policy": "delete"})
    with caplog.at_level(logging.WARNING, "moldau.client.replicated_state"):
        followed(broker, contents="notes")
    assert "notes will be lost. Next: moldau configs set notes cleanup.policy=compact" in caplog.text


def test_a_topic_with_two_partitions_is_refused(broker):
    broker.create_topic("notes", partitions=2)
    with pytest.raises(KafkaError, match="notes has 2 partitions; a registry needs one"):
        followed(broker, service="registry")


def test_the_broker_may_go_away_and_come_back(broker):
    async def work(follower):
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(broker.produce, "notes", "2", key="b")
        await follower.wait_for(0)

    assert [each.key for each in followed(broker, work)] == [b"b"]


def test_an_offset_that_never_comes(broker):
    async def work(follower):
        follower._timeout_seconds = 0.05
        with pytest.raises(KafkaError, match="offset 7 was written but not read again"):
            await follower.wait_for(7)

    followed(broker, work)
