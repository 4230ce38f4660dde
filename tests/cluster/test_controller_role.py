"""A broker that campaigns, acts, loses its role and campaigns again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.cluster import controller_role
from moldau.cluster.controller.commands import BrokerRegistration, create_cluster, register_broker
from moldau.cluster.controller.elections import default_rules
from moldau.cluster.controller_role import ControllerRole
from moldau.cluster.metadata import Metadata
from moldau.cluster.records import NO_LEADER, FeatureLevel, PartitionChanged, TopicCreated
from moldau.cluster.store.contract import MetadataStoreError
from moldau.cluster.store.memory import MemoryLog, MemoryStore
from tests.shared.waiting import until


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


class Member:
    """A broker as far as the controller is concerned."""

    def __init__(self, broker_id: int, log: MemoryLog, process: int = 0) -> None:
        self.broker_id = broker_id
        self.incarnation_id = bytes([broker_id, process]) * 8
        self.store = MemoryStore(log)
        self.metadata = Metadata(self.store)

    async def start(self) -> None:
        await self.metadata.open()
        await self.store.open_session(self.broker_id, lambda: None)
        self.role = ControllerRole(self.broker_id, self.store, self.metadata, default_rules)
        self.role.campaign()
        self.role.act(lambda image: create_cluster(image, "c", {}, {}), self.register)

    async def register(self, at: "Member | None" = None) -> None:
        registration = BrokerRegistration(self.broker_id, self.incarnation_id, ())
        metadata = (at or self).metadata
        await metadata.execute(lambda image: register_broker(image, registration))
        if at is not None and hasattr(self, "role"):
            self.role.registered = True

    async def die(self) -> None:
        await self.role.close()
        await self.metadata.close()
        await self.store.close()


def test_the_first_election_is_one_append() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one = Member(1, log)
        await one.start()
        await until(lambda: one.metadata.image.version)
        image = one.metadata.image
        assert (log.version, image.cluster_id, image.controller_id) == (1, "c", 1)
        assert image.is_live(1)
        assert one.role.acting
        await one.die()

    run(scenario)


def test_a_broker_whose_session_ends_is_fenced() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one, two = Member(1, log), Member(2, log)
        await one.start()
        await until(lambda: one.role.acting)
        await two.start()
        two.role.drop_first()
        await two.register(at=one)
        assert not two.role.acting
        assert one.metadata.image.is_live(2)
        await two.die()
        await until(lambda: not one.metadata.image.is_live(2))
        await one.die()

    run(scenario)


@pytest.mark.parametrize("controller", [1, 2])
def test_a_controller_fences_the_dead_although_its_own_disk_hangs(controller: int) -> None:
    """It has the directories of a new topic to make, since before its election or after it."""

    async def scenario() -> None:
        log = MemoryLog()
        members = {each: Member(each, log) for each in (1, 2, 3, 4, 5)}
        one, hanging, watching = members[1], members[controller], members[5]
        await one.start()
        await until(lambda: one.role.acting)
        for each in (2, 3, 4, 5):
            await members[each].start()
            members[each].role.drop_first()
            await members[each].register(at=one)
        gate = asyncio.Event()

        async def hang() -> None:
            await gate.wait()

        await until(lambda: all(each.metadata.image.is_live(5) for each in members.values()))
        hanging.metadata.make_ready = lambda old, new: hang()
        making = asyncio.ensure_future(one.metadata.submit(lambda image: [FeatureLevel("topic", 1)]))
        await until(lambda: "topic" in watching.metadata.image.features)
        dead = [1, 3, 4] if controller == 2 else [3, 4]
        for each in dead:
            await members[each].die()
            await until(lambda each=each: not watching.metadata.image.is_live(each))
        assert "topic" not in hanging.metadata.image.features
        gate.set()
        await making
        await until(lambda: hanging.metadata.image.version == watching.metadata.image.version)
        for each in {1, 2, 3, 4, 5} - set(dead):
            await members[each].die()

    run(scenario)


def test_a_cluster_that_has_died_as_a_whole_remembers_who_led() -> None:
    """Whoever comes first has led nothing since: it may be the one that lost most."""

    async def scenario() -> None:
        log = MemoryLog()
        one, two = Member(1, log), Member(2, log)
        await one.start()
        await until(lambda: one.role.acting)
        await two.start()
        two.role.drop_first()
        await two.register(at=one)
        led = PartitionChanged(bytes(16), 0, (2, 1), (2, 1), 2, 0, 0)
        await one.metadata.submit(lambda image: [TopicCreated(bytes(16), "t"), led])
        await one.role.close()  # before it can see that the other one is gone
        await two.die()
        await one.die()
        one = Member(1, log, process=1)
        await one.start()
        await until(lambda: one.metadata.image.is_live(1) and one.role.acting)
        (partition,) = one.metadata.image.topics_by_name["t"].partitions
        assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), (2,))
        assert partition.last_known_elr[0] == 2
        await one.die()

    run(scenario)


def test_a_late_registration_of_a_broker_without_a_session_does_not_last() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one, two = Member(1, log), Member(2, log)
        await one.start()
        await until(lambda: one.role.acting)
        await two.register(at=one)  # it was under way while its sender died
        await until(lambda: 2 in one.metadata.image.brokers and not one.metadata.image.is_live(2))
        await one.die()

    run(scenario)


def test_a_broker_is_fenced_although_the_store_fails_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_role, "_LOOK_SECONDS", 0.01)

    async def scenario() -> None:
        one, two = (Member(each, log) for each, log in zip((1, 2), [MemoryLog()] * 2, strict=True))
        await one.start()
        await until(lambda: one.role.acting)
        sessions, failures = one.store.sessions, [MetadataStoreError("down")] * 2

        async def sessions_later() -> frozenset[int]:
            if failures:
                raise failures.pop()
            return await sessions()

        monkeypatch.setattr(one.store, "sessions", sessions_later)
        await two.register(at=one)
        await until(lambda: 2 in one.metadata.image.brokers and not one.metadata.image.is_live(2))
        assert not failures
        await one.die()

    run(scenario)


def test_another_one_takes_over() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one, two = Member(1, log), Member(2, log)
        await one.start()
        await until(lambda: one.role.acting)
        await two.start()
        two.role.drop_first()
        await two.register(at=one)
        await one.die()
        await until(lambda: two.role.acting and not two.metadata.image.is_live(1))
        assert (two.metadata.image.controller_id, two.metadata.image.controller_epoch) == (2, 2)
        await two.die()

    run(scenario)


def test_a_lost_role_is_campaigned_for_again() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        one = Member(1, log)
        await one.start()
        await until(lambda: one.role.acting)
        one.metadata.on_deposed()
        await until(lambda: one.metadata.image.controller_epoch == 2)
        await until(lambda: one.role.acting)
        await one.die()
        assert not one.role.acting

    run(scenario)
