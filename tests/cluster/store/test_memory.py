"""The store in memory: what its brokers share, and snapshots in place of a long history."""

import asyncio

from moldau.cluster.image import EMPTY_IMAGE
from moldau.cluster.records import TopicCreated, TopicDeleted
from moldau.cluster.store.memory import MemoryLog, MemoryStore


def topic(number: int) -> TopicCreated:
    return TopicCreated(number.to_bytes(16, "big"), f"t{number}")


def test_stores_of_one_log_see_each_other() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one, other = MemoryStore(log), MemoryStore(log)
        epoch = (await one.campaign(1, lambda: None)).epoch
        assert await one.append([topic(1)], 0, epoch) == 1
        changes = await other.load()
        assert (changes.version, changes.records) == (1, [topic(1)])
        assert (await MemoryStore().load()).version == 0, "another log is another cluster"

    asyncio.run(scenario())


def test_a_long_history_becomes_a_snapshot() -> None:
    log = MemoryLog()
    for number in range(20_000):
        log.append([topic(1)] if number % 2 == 0 else [TopicDeleted(topic(1).topic_id)])
    assert log.version == 20_000
    assert len(log.appends) < log.version
    whole = log.changes(0)
    assert (whole.after_version, whole.version) == (0, 20_000)
    assert EMPTY_IMAGE.apply_all(whole.records).topics_by_name == {}


def test_who_is_too_far_behind_begins_again() -> None:
    log = MemoryLog()
    log.append([topic(1)])
    for unknown in (-1, 7):
        assert log.changes(unknown).after_version == 0
