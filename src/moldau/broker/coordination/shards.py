"""The coordinators of this node: which partition answers for a key, and how a handler asks it.

Invariant: a coordinator lives where its partition of the internal topic is led. The topic is made
when a coordinator is first looked for; only the broker writes to it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeAlias

from moldau.broker.context import Services
from moldau.broker.purgatory import when_done
from moldau.broker.topic_creation import create
from moldau.cluster.controller.topics import TopicToCreate
from moldau.cluster.image import ClusterImage
from moldau.coordinators.runtime import Runtime, partition_of
from moldau.coordinators.shard import CoordinatorResult, ShardType, Token
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.replicas import Replicas

Decide: TypeAlias = Callable[[ShardType, Token, int], CoordinatorResult]


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
        # A broker that is away counts: it gets its replicas when it is back.
        replicas = settings.at_most_brokers(f"{self._prefix}.replication.factor", len(services.image.brokers))
        configs = dict(self._configs)
        configs["segment.bytes"] = str(settings[f"{self._prefix}.segment.bytes"])
        topic = TopicToCreate(
            self.name, settings[f"{self._prefix}.num.partitions"], replicas, configs=configs
        )
        try:
            (outcome,) = await create(services, [topic])
        except KafkaError as error:  # there was no way to the controller
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
        if isinstance(outcome, KafkaError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)


class Coordinator(Generic[ShardType]):
    """One kind of coordinator over all partitions of its topic that this node leads."""

    def __init__(
        self, topic: InternalTopic, runtime: Runtime[ShardType], node_id: int, replicas: Replicas
    ) -> None:
        self.topic = topic
        self.runtime = runtime
        self._node_id = node_id
        self._replicas = replicas
        self._partitions = 0

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Loads what this node leads now, lets go of what it does not."""
        topic, before = (image.topics_by_name.get(self.topic.name) for image in (new, old))
        if topic is before:
            return
        partitions = () if topic is None else topic.partitions
        if topic is not None and before is not None and topic.topic_id != before.topic_id:
            for index in range(self._partitions):  # it was made again in the same change
                self.runtime.unload(index)
        for index in range(max(self._partitions, len(partitions))):
            leads = index < len(partitions) and partitions[index].leader == self._node_id
            if leads:
                self._listen(index)
                self.runtime.load(index, partitions[index].leader_epoch)
            else:
                self.runtime.unload(index)
        self._partitions = len(partitions)

    def let_go(self) -> None:
        """This node leads nothing, whatever the image says: who waits here is sent elsewhere."""
        for index in range(self._partitions):
            self.runtime.unload(index)

    def _listen(self, index: int) -> None:
        """Replies of a shard go out when its partition has committed the records behind them.

        The partition keeps the listener for as long as it is there; without a shard it does nothing.
        """
        partition = self._replicas.find(self.topic.name, index)
        partition.commit_listeners[self] = partial(self.runtime.committed, index)

    def partition_for(self, key: str) -> int:
        """The partition that is responsible for a group or a transactional id."""
        if not self._partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_of(key, self._partitions)

    def notify_all(self, decide: Callable[[ShardType, int], CoordinatorResult]) -> None:
        """Lets every shard here decide on something that concerns them all."""
        for partition in self.runtime.partitions():
            self.runtime.notify(partition, decide)

    def shard(self, key: str) -> ShardType:
        """The shard that is responsible for a key, to read from; KafkaError when it is not ready."""
        return self.runtime.shard(self.partition_for(key))

    def request(self, key: str, decide: Decide[ShardType]) -> "asyncio.Future[Any]":
        """The reply of the shard that is responsible for a key; most often there at once."""
        return self.runtime.request(self.partition_for(key), decide)

    def ask(
        self,
        key: str,
        decide: Decide[ShardType],
        go_on: "Callable[[asyncio.Future[Any]], Any]" = asyncio.Future.result,
    ) -> Any:
        """The reply as a handler returns it, now or as a ``Parked``; ``go_on`` makes the answer of it."""
        return when_done(self.request(key, decide), go_on)
