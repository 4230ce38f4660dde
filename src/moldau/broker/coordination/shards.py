"""The coordinators of this node: which partition answers for a key, and how a handler asks it.

Invariant: a coordinator lives where its partition of the internal topic is led. The topic is made when
somebody first looks for a coordinator; nobody but the broker writes to it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic

from moldau.broker.context import Services
from moldau.broker.topic_creation import create
from moldau.cluster.controller.topics import TopicToCreate
from moldau.cluster.image import ClusterImage
from moldau.coordinators.runtime import Runtime, partition_of
from moldau.coordinators.shard import CoordinatorResult, ShardType, Token
from moldau.protocol.errors import ErrorCode, KafkaError


class InternalTopic:
    """An internal topic as the settings describe it."""

    def __init__(self, name: str, prefix: str, configs: Mapping[str, str]) -> None:
        self.name = name
        self._prefix = prefix
        self._configs = configs

    async def make(self, services: Services) -> None:
        """Creates the topic unless it exists."""
        if self.name in services.image.topics_by_name:
            return
        settings = services.settings
        replicas = settings.at_most_brokers(
            f"{self._prefix}.replication.factor", len(services.image.live_brokers())
        )
        configs = dict(self._configs)
        configs["segment.bytes"] = str(settings[f"{self._prefix}.segment.bytes"])
        topic = TopicToCreate(
            self.name, settings[f"{self._prefix}.num.partitions"], replicas, configs=configs
        )
        (outcome,) = await create(services, [topic])
        if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)


class Coordinator(Generic[ShardType]):
    """One kind of coordinator over all partitions of its topic that this node leads."""

    def __init__(self, topic: InternalTopic, runtime: Runtime[ShardType], node_id: int) -> None:
        self.topic = topic
        self.runtime = runtime
        self._node_id = node_id
        self._partitions = 0

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Loads what this node leads now, lets go of what it does not."""
        topic = new.topics_by_name.get(self.topic.name)
        if topic is old.topics_by_name.get(self.topic.name):
            return
        partitions = () if topic is None else topic.partitions
        for index in range(max(self._partitions, len(partitions))):
            leads = index < len(partitions) and partitions[index].leader == self._node_id
            if leads:
                self.runtime.load(index)
            else:
                self.runtime.unload(index)
        self._partitions = len(partitions)

    def partition_for(self, key: str) -> int:
        """The partition that is responsible for a group or a transactional id."""
        if not self._partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_of(key, self._partitions)

    def tell_all(self, decide: Callable[[ShardType, int], CoordinatorResult]) -> None:
        """Lets every shard here decide on something that concerns them all."""
        for partition in self.runtime.partitions():
            self.runtime.notify(partition, decide)

    def shard(self, key: str) -> ShardType:
        """The shard that is responsible for a key, to read from; KafkaError when it is not ready."""
        return self.runtime.shard(self.partition_for(key))

    def ask(self, key: str, decide: Callable[[ShardType, Token, int], CoordinatorResult]) -> Any:
        """The reply of the shard that is responsible for a key, now or as a future."""
        future: asyncio.Future[Any] = self.runtime.request(self.partition_for(key), decide)
        return future.result() if future.done() else future

    async def answer(self, key: str, decide: Callable[[ShardType, Token, int], CoordinatorResult]) -> Any:
        """The same for handlers that wait anyway."""
        return await self.runtime.request(self.partition_for(key), decide)
