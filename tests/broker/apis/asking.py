"""Handlers as functions of values: a request goes in, the response comes out, and there is no socket between.

Invariant: a request reaches its handler as its version carries it, and a response is what a client of that
version reads. What a handler raises is answered by its own ``fail``, as the dispatcher does it.
"""

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

from moldau.broker.apis import TABLE
from moldau.broker.bounds.turns import at_once
from moldau.broker.context import LargeRequestContext, RequestContext
from moldau.broker.purgatory import Parked
from moldau.protocol.codec import decode, encode, writer
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.records import Record, encode_batch
from moldau.protocol.schema import declaration
from moldau.testing import Broker
from tests.shared.waiting import turns

NOWHERE = bytes(15) + b"\x01"  # an id that no topic has
#: What a test waits for at the longest; a handler that needs more has forgotten to answer.
_PATIENCE_SECONDS = 10


@dataclass(eq=False)
class Connection:
    """What handlers ask of a connection."""

    listener_name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    peer: str = "127.0.0.1:4711"
    produce_turn: "asyncio.Future[None] | None" = None
    software: tuple[str, str] = ("my-soft", "1.0")


class Ask:
    """``ask(request, version)`` is the response; without a version it is the highest one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def __call__(
        self,
        request: Any,
        version: int | None = None,
        *,
        client_id: str | None = "tester",
        large: bool = False,
    ) -> Any:
        return self.later(request, version, client_id=client_id, large=large).response()

    def later(
        self,
        request: Any,
        version: int | None = None,
        *,
        client_id: str | None = "tester",
        large: bool = False,
        connection: "Connection | None" = None,
    ) -> "Pending":
        """For a response that has to wait for something that the test does next."""
        of = declaration(type(request))
        assert of.api_key is not None
        version = of.versions.last if version is None else version
        services, connection = self.broker.node.services, connection or Connection()
        known = services, connection, of.api_key, version, 1, client_id
        context = (LargeRequestContext if large else RequestContext)(*known)  # type: ignore[arg-type]

        async def start() -> asyncio.Task[Any]:
            task = asyncio.get_running_loop().create_task(_answered(request, context))
            await turns()
            return task

        return Pending(self.broker, self.broker.run(start()), version)

    def topic_id(self, name: str) -> bytes:
        return self.broker.node.metadata.image.topics_by_name[name].topic_id


class Pending:
    """A request whose handler has begun."""

    def __init__(self, broker: Broker, task: "asyncio.Task[Any]", version: int) -> None:
        self._broker = broker
        self._task = task
        self._version = version

    @property
    def waits(self) -> bool:
        async def look() -> bool:
            await turns()
            return not self._task.done()

        return self._broker.run(look())

    def response(self) -> Any:
        """As a client reads it; None where there is no answer to be given."""

        async def wait() -> Any:
            response = await asyncio.wait_for(self._task, _PATIENCE_SECONDS)
            return None if response is None else _as_read(response, self._version)

        return self._broker.run(wait())


async def _answered(request: Any, context: RequestContext) -> Any:
    """What the handler says in the end, whichever way it goes about it."""
    api = TABLE[declaration(type(request)).api_key]  # type: ignore[index]
    received = decode(type(request), context.api_version, bytearray(encode(request, context.api_version)))
    try:
        result = api.handle(received, context)
        while isinstance(result, Parked) or inspect.isawaitable(result) or inspect.isgenerator(result):
            if inspect.isgenerator(result):
                result = at_once(result)
            elif isinstance(result, Parked):
                answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                context.services.purgatory.park(result, answered.set_result)
                result = await answered
            else:
                result = await result
        if isinstance(result, Exception):
            raise result
        return result
    except KafkaError as error:
        return api.fail(received, error, context)


def _as_read(response: Any, version: int) -> Any:
    out = bytearray()
    splices: list[tuple[int, Any]] = []
    writer(type(response), version)(response, out, splices)
    for position, part in reversed(splices):
        out[position:position] = part.read()
    return decode(type(response), version, bytes(out))


# --- what many tests begin with -------------------------------------------------------------------


def batch(*values: bytes, timestamp: int = 1_000, key: bytes | None = b"k", **options: Any) -> bytes:
    records = [Record(index, timestamp, key, value, ()) for index, value in enumerate(values or (b"v",))]
    return bytes(encode_batch(records, **options))


def produce_request(
    topic: str | bytes,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """For one partition; the topic by its name or, from version 13 on, by its id."""
    data = [PartitionProduceData(partition, records)]
    named = (
        TopicProduceData(topic, b"", data) if isinstance(topic, str) else TopicProduceData("", topic, data)
    )
    named.topic_id = named.topic_id or bytes(16)
    return ProduceRequest(transactional_id, acks, 5000, [named])


def open_coordinator(ask: Ask, key_type: int) -> None:
    """The topic of a coordinator is created when somebody first looks for it (0: groups, 1: transactions)."""
    ask(FindCoordinatorRequest("any", key_type), 3)


def new_producer(ask: Ask, transactional_id: str = "t") -> tuple[int, int]:
    """The identity of a transactional producer that has begun nothing yet."""
    open_coordinator(ask, 1)
    given = ask(InitProducerIdRequest(transactional_id, 60_000), 4)
    assert given.error_code == 0
    return given.producer_id, given.producer_epoch


def begin_transaction(
    ask: Ask, topic: str, values: tuple[bytes, ...] = (b"open",), transactional_id: str = "t"
) -> tuple[int, int]:
    """A transaction with one batch in the first partition of a topic, left open; its producer's identity."""
    identity = new_producer(ask, transactional_id)
    partitions = [AddPartitionsToTxnTopic(topic, [0])]
    ask(AddPartitionsToTxnRequest([], transactional_id, *identity, partitions), 3)
    records = batch(
        *values,
        timestamp=ask.broker.clock.now_ms(),  # as the marker's, else they stand in two segments
        producer_id=identity[0],
        producer_epoch=identity[1],
        base_sequence=0,
        transactional=True,
    )
    written = ask(produce_request(topic, records, transactional_id=transactional_id), 11)
    assert written.responses[0].partition_responses[0].error_code == 0
    return identity


def join_request(group: str, member_id: str = "", **options: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", b"subscription")],
        **options,
    }
    return JoinGroupRequest(group_id=group, member_id=member_id, **values)


def stable_member(ask: Ask, group: str) -> str:
    """The only member of a new classic group, with its assignment, in generation 1."""
    open_coordinator(ask, 0)
    member_id: str = ask(join_request(group)).member_id
    assert ask(join_request(group, member_id)).generation_id == 1
    assigned = [SyncGroupRequestAssignment(member_id, b"assignment")]
    assert ask(SyncGroupRequest(group, 1, member_id, None, "consumer", "range", assigned)).error_code == 0
    return member_id
