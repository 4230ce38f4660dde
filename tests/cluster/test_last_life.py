"""A broker that starts again, and what it waits for before it opens its session."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.cluster import last_life
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.last_life import wait_until_fenced
from moldau.cluster.records import BrokerFenced, BrokerRegistered, Record

REGISTERED = BrokerRegistered(1, 5, bytes(16), ())


class World:
    """A store and the metadata in one; each look makes the next thing happen."""

    def __init__(self, sessions: set[int], *steps: Callable[["World"], None], outlive: bool = True) -> None:
        self.live = sessions
        self.steps = list(steps)
        self.sessions_outlive_processes = outlive
        self.image: ClusterImage = EMPTY_IMAGE
        self.looks = 0

    def records(self, *records: Record) -> "World":
        self.image = self.image.apply_all(records, version=self.image.version + 1)
        return self

    async def sessions(self) -> frozenset[int]:
        self.looks += 1
        return frozenset(self.live)

    async def refresh(self) -> ClusterImage:
        if self.steps:
            self.steps.pop(0)(self)
        return self.image


def fence(world: World) -> None:
    world.records(BrokerFenced(1))


def end_session(world: World) -> None:
    world.live.discard(1)


def nothing(world: World) -> None:
    """The controller has not looked yet."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_life, "_LOOK_SECONDS", 0)


def waited(world: World) -> int:
    """How often it has looked."""
    anything: Any = world
    asyncio.run(wait_until_fenced(anything, anything, 1))
    return world.looks


@pytest.mark.parametrize("records", [(), (REGISTERED, BrokerFenced(1))], ids=["new", "fenced"])
def test_nothing_to_wait_for(records: tuple[Record, ...]) -> None:
    assert waited(World({2}).records(*records)) == 0


def test_it_waits_for_the_end_of_the_session_and_for_the_fencing() -> None:
    world = World({1, 2}, nothing, end_session, nothing, fence).records(REGISTERED)
    assert waited(world) == 4
    assert not world.image.is_live(1)


def test_alone_it_does_not_wait() -> None:
    assert waited(World(set()).records(REGISTERED)) == 1


def test_a_store_that_sees_deaths_has_no_sessions_of_the_dead() -> None:
    assert waited(World({1, 2}, outlive=False).records(REGISTERED)) == 1


def test_a_controller_that_does_not_act_is_not_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(last_life, "_FENCING_SECONDS", 0)
    assert waited(World({2}).records(REGISTERED)) >= 1
    assert "although its last process counts as running" in caplog.text


def test_a_session_that_does_not_end_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_life, "_SESSION_SECONDS", 0)
    assert waited(World({1, 2}).records(REGISTERED)) >= 1
