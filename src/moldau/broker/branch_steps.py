"""The steps of a fork on the brokers that have replicas of its source, and how the controller asks for them.

The leaders say where the fork ends, every broker with a replica makes its own branch, and when the topic is
in the metadata the branches are its logs. A replica that lags, or a broker that is away, copies its part
afterwards, as any follower does.

Invariant: a replica is in sync from the beginning only where its branch ends exactly where the others end,
and its broker has not been restarted since. What is left of a fork that failed is removed, at the next start
at the latest.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.base.names import Uuid, topic_name_error
from moldau.broker.context import Services
from moldau.cluster.image import TopicImage
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.branch_partitions import (
    FIND_ENDS,
    MAKE,
    PUBLISH,
    WITHDRAW,
    BranchedPartition,
    BranchPartition,
    BranchPartitionsRequest,
    BranchPartitionsResponse,
)
from moldau.replication.partition import Partition

log = logging.getLogger("moldau.broker.topics")

#: Linking takes no time; what is copied is one segment of each partition at most.
_TIMEOUT_MS = 120_000


class CutAt(NamedTuple):
    """Where the fork of one partition ends, and the leader epoch in which that was found."""

    offset: int
    leader_epoch: int


class Holder(NamedTuple):
    """A broker that has made its branch of a partition, in this life of it."""

    broker_id: int
    broker_epoch: int


class MadePartition(NamedTuple):
    """A partition of the fork, and who has it."""

    log_start_offset: int
    log_end_offset: int
    holders: tuple[Holder, ...]


# --- what this broker does -------------------------------------------------------------------------------


async def take_step(services: Services, request: BranchPartitionsRequest) -> BranchPartitionsResponse:
    """This broker's part of one step."""
    if request.step == FIND_ENDS:
        partitions = [await _find_end(services, request, each) for each in request.partitions]
    elif request.step == MAKE:
        partitions = await _make(services, request)
    else:
        partitions = []
        _settle(services, request.topic_id, publish=request.step == PUBLISH)
    broker = services.image.brokers.get(services.node_id)
    epoch = -1 if broker is None else broker.broker_epoch
    return BranchPartitionsResponse(broker_epoch=epoch, partitions=partitions)


async def _find_end(
    services: Services, request: BranchPartitionsRequest, asked: BranchPartition
) -> BranchedPartition:
    """Never behind the last stable offset."""
    source = services.replicas.find(request.source, asked.partition_index)
    source_log, epoch = source.leading_log(), source.leader_epoch
    start, stable = source_log.log_start_offset, source.last_stable_offset()
    if asked.offset >= 0:
        if not start <= asked.offset <= source.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{source.topic_partition} has offsets {start} to {source.high_watermark}: it cannot be cut "
                f"at {asked.offset}",
            )
        stable = min(asked.offset, stable)
    elif request.timestamp >= 0:
        newer = await services.heavy_batches.offset_for_timestamp(source, request.timestamp + 1)
        if newer is not None:
            stable = min(stable, newer.offset)
    end = max(stable, source_log.log_start_offset)
    return BranchedPartition(asked.partition_index, start, end, end, epoch)


async def _make(services: Services, request: BranchPartitionsRequest) -> list[BranchedPartition]:
    _check_name(services, request.name)
    sources: list[Partition] = []
    cuts: list[CutAt] = []
    for asked in {each.partition_index: each for each in request.partitions}.values():
        source = services.replicas.find(request.source, asked.partition_index)
        leads = source.leader == services.node_id
        if leads and asked.offset > (end := source.leading_log().log_end_offset):
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{source.topic_partition} ends at {end}: it cannot be cut at {asked.offset}",
            )
        if leads or _has_all(source, asked.offset):
            sources.append(source)
            cuts.append(CutAt(asked.offset, asked.leader_epoch))
    made = await services.branching.fork(
        sources,
        [each.offset for each in cuts],
        [each.leader_epoch for each in cuts],
        request.name,
        request.topic_id,
        request.timestamp_ms,
    )
    return [
        BranchedPartition(
            source.topic_partition.partition, start, max(cut.offset, start), end, cut.leader_epoch
        )
        for source, cut, (start, end) in zip(sources, cuts, made.bounds(), strict=True)
    ]


def _check_name(services: Services, name: str) -> None:
    """The name becomes that of a directory; who asks says that it is a broker, and may not be."""
    if (reason := topic_name_error(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    if name in services.image.topics_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _has_all(source: Partition, end: int) -> bool:
    """Whether a follower has everything below the end of the fork."""
    source_log = source.log
    return source_log is not None and source_log.log_start_offset <= end <= source_log.log_end_offset


def _settle(services: Services, topic_id: Uuid, *, publish: bool) -> None:
    known = topic_id in services.image.topics_by_id
    if publish or not known:
        services.branching.settle(topic_id, publish=publish)


# --- what the controller asks for ------------------------------------------------------------------------


async def find_ends(
    services: Services, source: TopicImage, timestamp: int | None, offsets: Mapping[int, int]
) -> list[CutAt]:
    """Where the fork of each partition ends, as its leader says."""
    by_leader: dict[int, list[BranchPartition]] = defaultdict(list)
    for each in source.partitions:
        if each.leader < 0:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{source.name}-{each.partition} has no leader now."
            )
        by_leader[each.leader].append(BranchPartition(each.partition, offsets.get(each.partition, -1)))
    answers = await asyncio.gather(
        *(
            _ask(services, leader, FIND_ENDS, source.name, "", bytes(16), asked, timestamp)
            for leader, asked in by_leader.items()
        )
    )
    found = {each.partition_index: each for answer in answers for each in answer.partitions}
    return [
        CutAt(found[each.partition].cut_offset, found[each.partition].leader_epoch)
        for each in source.partitions
    ]


async def make_branches(
    services: Services, source: TopicImage, name: str, topic_id: Uuid, cuts: Sequence[CutAt]
) -> list[MadePartition]:
    """Has every live broker with a replica make its branch; KafkaError when nobody has one of a partition."""
    now_ms = services.clock.now_ms()
    by_broker: dict[int, list[BranchPartition]] = defaultdict(list)
    for each, cut in zip(source.partitions, cuts, strict=True):
        for broker_id in each.replicas:
            if services.image.is_live(broker_id):
                by_broker[broker_id].append(BranchPartition(each.partition, *cut))
    outcomes = await asyncio.gather(
        *(
            _ask(services, broker_id, MAKE, source.name, name, topic_id, asked, None, now_ms)
            for broker_id, asked in by_broker.items()
        ),
        return_exceptions=True,
    )
    answers: dict[int, BranchPartitionsResponse] = {}
    failure: BaseException | None = None
    for broker_id, outcome in zip(by_broker, outcomes, strict=True):
        if isinstance(outcome, BranchPartitionsResponse):
            answers[broker_id] = outcome
        else:
            failure = outcome
            log.warning("broker %d has no branch of %s: %s", broker_id, source.name, outcome)
    try:
        return [_made(each.partition, each.leader, answers, failure) for each in source.partitions]
    except KafkaError:
        await settle(services, source, name, topic_id, publish=False)
        raise


def _made(
    partition: int,
    leader: int,
    answers: Mapping[int, BranchPartitionsResponse],
    failure: BaseException | None,
) -> MadePartition:
    """The branches of one partition that are alike; the leader of the source says how they are."""
    found = {
        broker_id: each
        for broker_id, answer in answers.items()
        for each in answer.partitions
        if each.partition_index == partition
    }
    if not found:
        if isinstance(failure, KafkaError):
            raise failure
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No broker could fork partition {partition}.")
    model = found[leader if leader in found else min(found)]
    holders = tuple(
        Holder(broker_id, answers[broker_id].broker_epoch)
        for broker_id, each in found.items()
        if each.log_end_offset == model.log_end_offset
    )
    return MadePartition(model.log_start_offset, model.log_end_offset, holders)


async def settle(services: Services, source: TopicImage, name: str, topic_id: Uuid, *, publish: bool) -> None:
    """Tells every broker with a replica what became of the fork; who does not hear it knows at its start."""
    step = PUBLISH if publish else WITHDRAW
    brokers = {broker for each in source.partitions for broker in each.replicas}
    live = [broker for broker in brokers if services.image.is_live(broker)]
    asks = (_ask(services, each, step, source.name, name, topic_id, [], None) for each in live)
    for broker, outcome in zip(live, await asyncio.gather(*asks, return_exceptions=True), strict=True):
        if isinstance(outcome, BaseException):
            log.warning("broker %d did not hear what became of the fork %s: %s", broker, name, outcome)


async def _ask(
    services: Services,
    broker_id: int,
    step: int,
    source: str,
    name: str,
    topic_id: Uuid,
    partitions: list[BranchPartition],
    timestamp: int | None,
    timestamp_ms: int = -1,
) -> BranchPartitionsResponse:
    request = BranchPartitionsRequest(
        step, source, name, topic_id, -1 if timestamp is None else timestamp, timestamp_ms, partitions
    )
    if broker_id == services.node_id:
        return await take_step(services, request)
    answer: BranchPartitionsResponse = await services.ask_broker(broker_id, request, _TIMEOUT_MS)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    return answer
