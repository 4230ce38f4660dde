"""A broker without sockets: the real handlers and coordinators, in one process after the other.

A request is encoded in its version, handled by the handler in the broker's own table, and its response is
encoded and decoded again. A crash loses everything that the process had in memory; a move takes one partition
away and brings it back with the next leader epoch.

Invariant: an exception of a handler, a task or a timer that is not an error response ends the run.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

from moldau.base.tasks import Background, Timers
from moldau.broker.apis import TABLE
from moldau.broker.context import RequestContext
from moldau.broker.coordination.groups import group_coordinator
from moldau.broker.coordination.transactions import Transactions
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.metadata_changes import MetadataChanges
from moldau.broker.monitoring.requests import RequestMetrics
from moldau.broker.monitoring.topic_failures import TopicFailures
from moldau.broker.purgatory import Parked, Purgatory
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.coordinators.runtime import Runtime
from moldau.protocol import codec, messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import KafkaError
from moldau.protocol.schema import declaration
from tests.simulation.simulated_partitions import NOBODY, NODE_ID, Partitions
from tests.simulation.virtual_time import VirtualClock, VirtualLoop

#: Short sessions, so that minutes are enough to see them end.
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    # A group that is empty and has no offsets would be forgotten, and its generations begin again.
    "offsets.retention.check.interval.ms": "86400000",
}


class Disconnected(Exception):
    """The connection ended before the answer came; the request may have been handled or not."""


class ProducerIds:
    """Ids that are given out once, whatever happens to the broker."""

    def __init__(self) -> None:
        self._next = 1000

    async def take(self) -> int:
        await asyncio.sleep(0)
        self._next += 1
        return self._next


class WatchedBackground(Background):
    """Background work whose failure ends the run."""

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._fail = fail

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def kill(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()


@dataclass(eq=False, slots=True)
class Call:
    """A request that the broker has not answered."""

    what: str
    since: float
    reply: "asyncio.Future[Any]"
    #: What the handler left to be awaited_requests.
    work: Any = None


class Services:
    """The broker as those handlers see it that clients of this world call."""

    def __init__(self, broker: "SimulatedBroker", process: "Process") -> None:
        self._broker = broker
        self.node_id = NODE_ID
        self.clock = broker.clock
        self.settings = broker.settings
        self.replicas = broker.partitions.replicas
        self.purgatory = Purgatory(process.timers, 1000)
        self.fetch_sessions = FetchSessions(broker.clock, broker.settings, lambda: 1)
        self.producer_ids = broker.producer_ids
        self.groups = process.groups
        self.transactions = process.transactions
        self.authorization = None
        self.requests = RequestMetrics()
        self.topic_failures = TopicFailures()
        self.stopping = False

    @property
    def image(self) -> ClusterImage:
        return self._broker.image


class Process:
    """One life of the broker."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        self._broker = broker
        #: In the order in which they came.
        self.calls: dict[Call, None] = {}
        self.timers = Timers(broker.clock, broker.loop)
        self.background = WatchedBackground(broker.fail)
        common = (broker.partitions.replicas, broker.clock, self.timers, self.background)
        self.groups = group_coordinator(
            NODE_ID, broker.settings, *common, broker.new_uuid, lambda: broker.image
        )
        self.transactions = Transactions(
            NODE_ID, broker.settings, *common, self.groups, broker.partitions.image
        )
        self.services = Services(broker, self)
        for runtime in self.runtimes():
            broker.on_runtime(runtime)
        self.changes = MetadataChanges(
            NODE_ID,
            broker.settings,
            broker.partitions.replicas,
            self.groups,
            self.transactions.coordinator,
            lambda: None,
        )
        self.changes.apply(EMPTY_IMAGE, broker.image, ())

    def runtimes(self) -> tuple[Runtime[Any], Runtime[Any]]:
        return self.groups.runtime, self.transactions.coordinator.runtime

    # --- requests -------------------------------------------------------------------------------

    def deliver(self, request: Any, version: int, client_id: str) -> "asyncio.Future[Any]":
        """Handles a request; the future is its answer, or Disconnected."""
        api_key = declaration(type(request)).api_key
        assert api_key is not None
        api = TABLE[api_key]
        buffer = bytearray(codec.encode(request, version))
        received = codec.decode(type(request), version, buffer)
        connection: Any = SimpleNamespace(
            host="127.0.0.1", peer=client_id, listener_name="PLAINTEXT", produce_turn=None
        )
        services: Any = self.services
        context = RequestContext(services, connection, api_key, version, 0, client_id)
        loop = self._broker.loop
        call = Call(f"{api_key.name} v{version} {request}", loop.time(), loop.create_future())
        self.calls[call] = None

        def answer(result: Any) -> None:
            if isinstance(result, Parked):
                self.services.purgatory.park(result, answer)
                return
            if isinstance(result, KafkaError):
                result = api.fail(received, result, context)
            if isinstance(result, Exception):
                raise result
            self._answer(call, api_key, version, result)

        async def later(work: Awaitable[Any]) -> None:
            try:
                result = await work
            except KafkaError as error:
                result = error
            answer(result)

        try:
            result = api.handle(received, context)
        except KafkaError as error:
            result = error
        if inspect.isawaitable(result):
            call.work = result
            self.background.start(later(result), api_key.name.lower())
        else:
            answer(result)
        return call.reply

    def _answer(self, call: Call, api_key: ApiKey, version: int, response: Any) -> None:
        if call not in self.calls:
            return  # the process is dead
        del self.calls[call]
        if api_key is not ApiKey.FETCH:  # whose records are slices of files
            _, cls = messages.load(api_key)
            response = codec.decode(cls, version, codec.encode(response, version))
        if not call.reply.done():
            call.reply.set_result(response)

    def kill(self) -> None:
        """Everything that it had in memory is gone; its clients see their connections end."""
        self.timers.close()
        self.background.kill()
        for runtime in self.runtimes():
            runtime._contexts.clear()  # and with them what the present turn was about to append
        for parked in tuple(self.services.purgatory._parked):
            self.services.purgatory.cancel(parked)
        for call in self.calls:
            if (
                inspect.iscoroutine(call.work)
                and inspect.getcoroutinestate(call.work) == inspect.CORO_CREATED
            ):
                call.work.close()  # its turn would have been the next
            if not call.reply.done():
                call.reply.set_exception(Disconnected())
                call.reply.exception()  # not everybody is there to look at it
        self.calls.clear()


class SimulatedBroker:
    def __init__(
        self,
        loop: VirtualLoop,
        clock: VirtualClock,
        partitions: Partitions,
        dice: Random,
        fail: Callable[[BaseException], None],
        settings: dict[str, str],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.partitions = partitions
        self.fail = fail
        self.dice = dice
        self.settings = load_broker_settings({**SETTINGS, **settings})
        self.producer_ids = ProducerIds()
        self.image = partitions.image()
        #: Called with each runtime before it loads anything, so that the checkers can watch it.
        self.on_runtime: Callable[[Runtime[Any]], None] = lambda runtime: None
        self.process: Process | None = None

    def new_uuid(self) -> bytes:
        return self.dice.randbytes(16)

    def start(self) -> None:
        self.image = self.partitions.image()
        self.process = Process(self)

    def crash(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None
        self.partitions.crash()

    def resign(self, topic: str, index: int) -> None:
        """Somebody else leads the partition from now on, for a while."""
        partition = self.partitions.get(topic, index)
        partition.leader = NOBODY
        self.follow()
        partition.change_leader(self.dice, self.clock.now_ms())

    def lead_again(self, topic: str, index: int) -> None:
        self.partitions.get(topic, index).leader = NODE_ID
        self.follow()

    def follow(self) -> None:
        """The metadata has changed; as the node does it."""
        old, self.image = self.image, self.partitions.image()
        if self.process is None:
            return
        self.process.changes.apply(old, self.image, ())
