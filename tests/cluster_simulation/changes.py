"""What an operator changes while there is trouble: replicas leave a broker and come again, a topic asks for
fewer replicas in sync, topics come and go.

Invariant: whatever is changed is changed back, and tried again until it is; a run is over no sooner.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from moldau.client.admin.replicas import reassign
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from tests.cluster_simulation.processes import Process
from tests.cluster_simulation.simulated_cluster import SimulatedCluster
from tests.cluster_simulation.trouble import BROKERS

#: One change, with the errors of those of its parts that were refused.
Change = Callable[[Cluster], Awaitable[Mapping[Any, KafkaError | None]]]


class Operator:
    def __init__(self, cluster: SimulatedCluster, open_client: Callable[[], Awaitable[Cluster]]) -> None:
        self._cluster = cluster
        self._open = open_client
        #: Changes that are not changed back yet.
        self.at_work = 0

    def move(self, broker_id: int, seconds: float) -> None:
        """One replica of every partition of the clients' topics leaves a broker, and begins anew later."""
        others = tuple(each for each in BROKERS if each != broker_id)
        self._for_a_while(seconds, lambda it: _place(it, others), lambda it: _place(it, BROKERS))

    def lower(self, seconds: float) -> None:
        """A topic is content with its leader alone."""
        self._for_a_while(seconds, lambda it: _ask_for(it, "1"), lambda it: _ask_for(it, "2"))

    def topic(self, name: str, seconds: float) -> None:
        """A topic is made, and soon made again; others may do the same with it."""

        async def again(cluster: Cluster) -> Mapping[Any, KafkaError | None]:
            return {**await _delete(cluster, name), **await _create(cluster, name)}

        async def create_twice(cluster: Cluster) -> Mapping[Any, KafkaError | None]:
            return {**await _create(cluster, name), **await again(cluster)}

        self._for_a_while(seconds, create_twice, lambda it: _delete(it, name))

    def _for_a_while(self, seconds: float, change: Change, back: Change) -> None:
        async def work() -> None:
            await self._until_done(change)
            await asyncio.sleep(seconds)
            await self._until_done(back)
            self.at_work -= 1

        self.at_work += 1
        Process(self._cluster.loop, "operator").run(work())

    async def _until_done(self, change: Change) -> None:
        while True:
            try:
                async with await self._open() as cluster:
                    if not any((await change(cluster)).values()):
                        return
            except (KafkaError, TimeoutError):
                pass
            await asyncio.sleep(0.2)


async def _place(cluster: Cluster, replicas: tuple[int, ...]) -> Mapping[Any, KafkaError | None]:
    places = [TopicPartition(topic, each) for topic in ("plain", "bank") for each in range(2)]
    turned = {
        place: replicas[at % len(replicas) :] + replicas[: at % len(replicas)]
        for at, place in enumerate(places)
    }
    return await reassign(cluster, turned)


async def _ask_for(cluster: Cluster, replicas: str) -> Mapping[Any, KafkaError | None]:
    topic = ConfigResource(ResourceType.TOPIC, "plain")
    change = ConfigChange("min.insync.replicas", ConfigOperation.SET, replicas)
    return await Admin(cluster).incremental_alter_configs({topic: [change]})


async def _create(cluster: Cluster, name: str) -> Mapping[Any, KafkaError | None]:
    outcome = (await Admin(cluster).create_topics([NewTopic(name, 3, 3)]))[name]
    failed = isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS
    return {name: outcome if failed else None}  # type: ignore[dict-item]


async def _delete(cluster: Cluster, name: str) -> Mapping[Any, KafkaError | None]:
    outcome = (await Admin(cluster).delete_topics([name]))[name]
    gone = outcome is not None and outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {name: None if gone else outcome}
