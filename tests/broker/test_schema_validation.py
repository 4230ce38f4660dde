"""Topics that take only records with registered schemas: the broker's side, with a registry made by hand."""

import asyncio
import functools
import gc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from moldau.base.names import TopicPartition
from moldau.base.tasks import Background
from moldau.broker.purgatory import Parked, Purgatory
from moldau.broker.schema_validation import SchemaValidator
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records import Record, encode_batch
from moldau.replication.heavy_batches import BatchLimits, HeavyBatches
from moldau.replication.partition import Partition
from moldau.replication.replicas import TopicReplicas
from moldau.replication.schema_validation import SchemaValidation
from moldau.storage.log.config import LogConfig
from tests.shared.waiting import turns, until

ORDERS = TopicPartition("orders", 0)


class Ids:
    """Knows what it was told; a question waits until it is answered."""

    def __init__(self, **known):
        self.answers = {("orders-value", int(name[1:])): answer for name, answer in known.items()}
        self.asked = {}

    def known(self, subject, schema):
        return self.answers.get((subject, schema))

    async def ask(self, subject, schema):
        self.asked[schema] = asyncio.get_running_loop().create_future()
        return await self.asked[schema]


@pytest.fixture
def replicas():
    partition = Partition(ORDERS, bytes(16), 1)
    partition.schema_validation = SchemaValidation(None, "orders-value")
    partition.log = SimpleNamespace(config=LogConfig())
    topic = TopicReplicas("orders", bytes(16))
    topic.partitions.append(partition)
    return SimpleNamespace(by_name={"orders": topic}, by_id={}, validating={"orders"})


class Connected:
    """All that is known of a connection here."""


ONE, TWO = Connected(), Connected()
THREAD = ThreadPoolExecutor(1)


def context(replicas, connection=ONE):
    heavy = HeavyBatches(THREAD, BatchLimits(1_000_000, 1_000_000, 1 << 26))
    services = SimpleNamespace(replicas=replicas, background=Background(), heavy_batches=heavy)
    return SimpleNamespace(api_version=12, services=services, connection=connection)


def parked(result):
    """The future behind a request that waits, as a purgatory would make it."""
    assert isinstance(result, Parked)
    answer = asyncio.get_running_loop().create_future()
    Purgatory(None, 1).park(result, answer.set_result)
    return answer


def request(*ids):
    records = [Record(at, 1, None, b"\0" + each.to_bytes(4, "big"), ()) for at, each in enumerate(ids)]
    data = PartitionProduceData(0, memoryview(encode_batch(records)))
    return ProduceRequest(None, -1, 1000, [TopicProduceData("orders", bytes(16), [data])])


def appending(done):
    def append(request, context, refusals):
        done.append((request, refusals))
        return len(done)

    return append


def in_a_loop(test):
    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


async def settle():
    await turns(5)


def test_what_is_known_is_answered_at_once(replicas):
    done = []
    validator = SchemaValidator(lambda: Ids(i1=True, i2=False))
    assert validator.admit(request(1, 1), context(replicas), appending(done)) == 1
    assert done[0][1] == {}
    validator.admit(request(1, 2), context(replicas), appending(done))
    assert done[1][1][ORDERS].code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in done[1][1][ORDERS].record_errors] == [1]


@in_a_loop
async def test_requests_of_one_connection_keep_their_order(replicas):
    done = []
    ids = Ids(i1=True)
    validator = SchemaValidator(lambda: ids)
    first, second, other = request(5), request(1), request(1)
    waiting = parked(validator.admit(first, context(replicas), appending(done)))
    behind = parked(validator.admit(second, context(replicas), appending(done)))
    assert validator.admit(other, context(replicas, TWO), appending(done)) == 1
    await settle()
    assert [each for each, _ in done] == [other]
    ids.asked[5].set_result(True)
    assert await asyncio.gather(waiting, behind) == [2, 3]
    assert [each for each, _ in done] == [other, first, second]
    assert all(refusals == {} for _, refusals in done)
    assert validator.admit(second, context(replicas), appending(done)) == 4


@in_a_loop
async def test_a_heavy_batch_is_looked_at_in_a_thread_and_in_its_turn(replicas):
    done, ids = [], Ids(i1=True)
    validator = SchemaValidator(lambda: ids)
    heavy, second = request(*[1] * 10_001, 2), request(1)
    waiting = [parked(validator.admit(each, context(replicas), appending(done))) for each in (heavy, second)]
    await until(lambda: 2 in ids.asked)
    assert done == []
    ids.asked[2].set_result(False)
    await asyncio.gather(*waiting)
    assert [each for each, _ in done] == [heavy, second]
    assert [index for index, _ in done[0][1][ORDERS].record_errors] == [10_001]
    assert done[1][1] == {}


@in_a_loop
async def test_the_records_of_a_request_that_waits_are_copied(replicas):
    ids, sent = Ids(), request(5)
    buffer = sent.topic_data[0].partition_data[0].records
    waiting = parked(SchemaValidator(lambda: ids).admit(sent, context(replicas), appending([])))
    kept = sent.topic_data[0].partition_data[0].records
    assert kept == buffer
    assert kept.obj is not buffer.obj
    await settle()
    ids.asked[5].set_result(True)
    await waiting


@in_a_loop
async def test_a_registry_that_does_not_answer_is_tried_again_by_the_client(replicas):
    done, ids = [], Ids()
    waiting = parked(SchemaValidator(lambda: ids).admit(request(5), context(replicas), appending(done)))
    await settle()
    ids.asked[5].set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody there"))
    await waiting
    assert done[0][1][ORDERS].code == ErrorCode.REQUEST_TIMED_OUT


def test_no_registry_is_named(replicas):
    done = []
    SchemaValidator(lambda: None).admit(request(5), context(replicas), appending(done))
    refusal = done[0][1][ORDERS]
    assert refusal.code == ErrorCode.INVALID_CONFIG
    assert "confluent.schema.registry.url" in refusal.message


def test_who_makes_up_schemas_is_not_asked_for(replicas):
    done = []
    SchemaValidator(Ids).admit(request(*range(101)), context(replicas), appending(done))
    assert done[0][1][ORDERS].code == ErrorCode.INVALID_RECORD


def test_other_topics_are_not_looked_at(replicas):
    done = []
    replicas.validating = {"another"}
    SchemaValidator(lambda: None).admit(request(5), context(replicas), appending(done))
    assert done[0][1] == {}


@pytest.mark.slow
@in_a_loop
async def test_a_connection_that_is_gone_leaves_nothing_behind(replicas):
    done, ids = [], Ids()
    validator, connection, purgatory = SchemaValidator(lambda: ids), Connected(), Purgatory(None, 1)
    waiting = validator.admit(request(5), context(replicas, connection), appending(done))
    purgatory.park(waiting, done.append)
    await settle()
    purgatory.cancel(waiting)
    del waiting, connection
    gc.collect()
    assert not validator._turns
    ids.asked[5].set_result(True)
    await settle()
    assert done == []
