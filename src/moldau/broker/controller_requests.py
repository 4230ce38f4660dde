"""What brokers ask of the controller: to be registered, to stop, other in-sync replicas, producer ids.

The same functions answer a request that came over a connection and one of this very broker.

Invariant: only a broker that is the controller answers; any other says NOT_CONTROLLER. Each request may come
twice, because its sender repeats it when an answer is lost. No request takes a running broker out of the
cluster: it is fenced when its session ends, and not because somebody says so in its name.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from moldau.broker.apis.envelope import opened
from moldau.broker.context import Services
from moldau.cluster.controller import commands
from moldau.cluster.controller.isr_changes import (
    ANY_EPOCH,
    IsrMember,
    IsrOutcome,
    IsrProposal,
    alter_partitions,
)
from moldau.cluster.records import Endpoint
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataRequest,
    TopicData,
)
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


async def answer(services: Services, request: Any) -> Any:
    """The answer to any of these requests; KafkaError as an answer where there is a place for it."""
    handle, fail = _HANDLERS[type(request)]
    try:
        if not services.is_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await handle(services, request)
    except KafkaError as error:
        return fail(error_code=error.code)


async def answer_to_connection(services: Services, request: Any) -> Any:
    """The answer to a request that came over a connection, where anybody may claim to be a broker.

    The controller's own requests never leave its process, so whoever speaks for it here is somebody else.
    """
    if services.is_controller and request.broker_id == services.node_id:
        fail = _HANDLERS[type(request)][1]
        if isinstance(request, BrokerRegistrationRequest):
            return fail(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        return fail(error_code=ErrorCode.STALE_BROKER_EPOCH)  # it is not this life of the broker that speaks
    return await answer(services, request)


# --- registration ----------------------------------------------------------------------------------------


def registration_request(registration: commands.BrokerRegistration) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        registration.broker_id,
        registration.cluster_id or "",
        registration.incarnation_id,
        [
            Listener(each.name, each.host, each.port, _PROTOCOLS.index(each.security_protocol))
            for each in registration.listeners
        ],
        rack=registration.rack,
        log_dirs=list(registration.log_directories),
        previous_broker_epoch=registration.previous_broker_epoch,
    )


async def _register(services: Services, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    for listener in request.listeners:
        if not 0 <= listener.security_protocol < len(_PROTOCOLS):
            raise KafkaError(ErrorCode.INVALID_REGISTRATION)
    registration = commands.BrokerRegistration(
        request.broker_id,
        request.incarnation_id,
        tuple(
            Endpoint(each.name, each.host, each.port, _PROTOCOLS[each.security_protocol])
            for each in request.listeners
        ),
        request.rack,
        tuple(request.log_dirs),
        request.cluster_id,
        request.previous_broker_epoch,
    )
    epoch = await services.metadata.execute(
        lambda image: commands.register_broker(image, registration, services.election_rules),
        when_stored=True,
    )
    return BrokerRegistrationResponse(broker_epoch=epoch)


async def _heartbeat(services: Services, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    broker_id, epoch = request.broker_id, request.broker_epoch
    metadata = services.metadata
    commands.checked_broker(metadata.known, broker_id, epoch)
    if request.want_shut_down:
        await metadata.submit(
            lambda image: commands.begin_shutdown(image, broker_id, epoch, services.election_rules),
            when_stored=True,
        )
    elif request.want_fence and broker_id not in await metadata.sessions():
        await metadata.submit(
            lambda image: commands.fence_broker(image, broker_id, services.election_rules), when_stored=True
        )
    image = metadata.known
    leads = any(
        partition.leader == broker_id
        for topic in image.topics_by_id.values()
        for partition in topic.partitions
    )
    return BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= epoch,
        is_fenced=not image.is_live(broker_id),
        should_shut_down=request.want_shut_down and not leads,
    )


# --- partitions and producer ids -------------------------------------------------------------------------


async def _alter_partition(services: Services, request: AlterPartitionRequest) -> AlterPartitionResponse:
    proposals = [_proposal(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
    outcomes = await services.metadata.execute(
        lambda image: alter_partitions(
            image, request.broker_id, request.broker_epoch, proposals, services.election_rules
        ),
        when_stored=True,
    )
    answered = iter(outcomes)
    return AlterPartitionResponse(
        topics=[
            TopicData(
                topic.topic_id, [_outcome(each.partition_index, next(answered)) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _proposal(topic_id: bytes, asked: PartitionDataRequest) -> IsrProposal:
    # Version 2 has no epochs.
    members = tuple(IsrMember(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs)
    return IsrProposal(
        topic_id,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        members or tuple(IsrMember(each, ANY_EPOCH) for each in asked.new_isr),
        asked.leader_recovery_state,
    )


def _outcome(partition: int, outcome: IsrOutcome) -> PartitionData:
    if isinstance(outcome, KafkaError):
        return PartitionData(partition, outcome.code)
    return PartitionData(
        partition,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        partition_epoch=outcome.partition_epoch,
    )


async def _allocate_producer_ids(
    services: Services, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    block = await services.metadata.execute(
        lambda image: commands.allocate_producer_ids(image, request.broker_id, request.broker_epoch),
        when_stored=True,
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first_id, producer_id_len=block.count)


_HANDLERS: dict[type, tuple[Callable[[Services, Any], Awaitable[Any]], Callable[..., Any]]] = {
    BrokerRegistrationRequest: (_register, BrokerRegistrationResponse),
    BrokerHeartbeatRequest: (_heartbeat, BrokerHeartbeatResponse),
    AlterPartitionRequest: (_alter_partition, AlterPartitionResponse),
    AllocateProducerIdsRequest: (_allocate_producer_ids, AllocateProducerIdsResponse),
    # This broker was to forward a client's request, and is the controller itself by now.
    EnvelopeRequest: (opened, EnvelopeResponse),
}
