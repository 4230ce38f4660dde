"""The controller's commands on the cluster, its brokers, configs and producer ids (topics: ``topics.py``).

Invariant: a command turns the image into records, or raises KafkaError. It is pure: ids and random numbers
are arguments. Without anything to change it returns no records. The records are only valid on the image
they were decided on; the store's expected version ensures that, so there is no lock here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from moldau.base.names import Uuid
from moldau.cluster.controller.elections import (
    RulesOf,
    default_rules,
    elections_after_loss,
    elections_after_return,
)
from moldau.cluster.image import BrokerImage, ClusterImage
from moldau.cluster.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ControllerElected,
    Endpoint,
    FeatureLevel,
    ProducerIdsAllocated,
    Record,
    ResourceType,
)
from moldau.protocol.errors import ErrorCode, KafkaError

PRODUCER_ID_BLOCK_SIZE = 1000
_MAX_PRODUCER_ID = 2**63 - 1

Response = TypeVar("Response", covariant=True)


class ControllerResult(NamedTuple, Generic[Response]):
    """The records to append, and the response to give once they are stored."""

    records: tuple[Record, ...]
    response: Response


class BrokerRegistration(NamedTuple):
    """What a broker process says about itself when it starts."""

    broker_id: int
    incarnation_id: Uuid
    listeners: tuple[Endpoint, ...]
    rack: str | None = None
    log_directories: tuple[Uuid, ...] = ()
    cluster_id: str | None = None
    #: The epoch of the process before this one, if it stopped in good order.
    previous_broker_epoch: int = -1


@dataclass(frozen=True, slots=True)  # a NamedTuple cannot have a field ``count``
class ProducerIdBlock:
    first_id: int
    count: int


# --- The cluster and its brokers -------------------------------------------------------------------------


def create_cluster(
    image: ClusterImage, cluster_id: str, features: Mapping[str, int], configs: Mapping[str, str]
) -> list[Record]:
    """The first records of a new log; none where a cluster exists. ``configs`` are for all its brokers."""
    if image.cluster_id is not None:
        return []
    return [
        ClusterCreated(cluster_id),
        *(FeatureLevel(name, level) for name, level in features.items()),
        *(ConfigChanged(ResourceType.BROKER, "", name, value) for name, value in configs.items()),
    ]


def become_controller(image: ClusterImage, broker_id: int, controller_epoch: int) -> list[Record]:
    """Records the winner of an election, so that all brokers learn who the controller is."""
    if controller_epoch <= image.controller_epoch:
        raise KafkaError(
            ErrorCode.STALE_CONTROLLER_EPOCH,
            f"Broker {image.controller_id} is the controller of the later epoch {image.controller_epoch}",
        )
    return [ControllerElected(broker_id, controller_epoch)]


def register_broker(
    image: ClusterImage, registration: BrokerRegistration, rules_of: RulesOf = default_rules
) -> ControllerResult[int]:
    """Registers a broker that has started; the response is its broker epoch.

    Partitions that have been offline without this broker get a leader again. That no other live process uses
    the same id is not checked here: the broker's session in the store guarantees it.
    """
    if registration.cluster_id is not None and registration.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {registration.cluster_id}",
        )
    broker_id = registration.broker_id
    known = image.brokers.get(broker_id)
    same_process = known is not None and known.incarnation_id == registration.incarnation_id
    if known is not None and same_process and image.is_active(broker_id):
        return ControllerResult((), known.broker_epoch)
    broker_epoch = max(image.version + 1, 0 if known is None else known.broker_epoch + 1)
    registered = BrokerRegistered(
        broker_id,
        broker_epoch,
        registration.incarnation_id,
        registration.listeners,
        registration.rack,
        registration.log_directories,
    )
    clean = known is not None and registration.previous_broker_epoch == known.broker_epoch
    before, now = set(known.log_directories if known else ()), set(registration.log_directories)
    elections = elections_after_return(
        image,
        broker_id,
        rules_of,
        clean=same_process or clean,
        empty=bool(before and now) and before.isdisjoint(now),
    )
    return ControllerResult((registered, *elections), broker_epoch)


def fence_broker(image: ClusterImage, broker_id: int, rules_of: RulesOf = default_rules) -> list[Record]:
    """A broker is lost or stops: other replicas take over what it led. No records if it is fenced already."""
    if not image.is_live(broker_id):
        return []
    return [BrokerFenced(broker_id), *elections_after_loss(image, {broker_id}, rules_of)]


def fence_missing_brokers(
    image: ClusterImage,
    sessions: Collection[int],
    known: ClusterImage | None = None,
    rules_of: RulesOf = default_rules,
) -> list[Record]:
    """Fences every live broker without a session.

    ``known`` is the image from before the sessions were read: a broker that has registered since has opened
    its session since.
    """
    registered = image.brokers if known is None else known.brokers
    missing = {
        broker.broker_id
        for broker in image.live_brokers()
        if broker.broker_id not in sessions
        and (before := registered.get(broker.broker_id)) is not None
        and before.broker_epoch == broker.broker_epoch
    }
    if not missing:
        return []
    return [
        *(BrokerFenced(broker_id) for broker_id in sorted(missing)),
        *elections_after_loss(image, missing, rules_of),
    ]


def begin_shutdown(
    image: ClusterImage, broker_id: int, broker_epoch: int, rules_of: RulesOf = default_rules
) -> list[Record]:
    """A broker is about to stop: others take over what it led, and it leaves every ISR."""
    broker = checked_broker(image, broker_id, broker_epoch)
    if broker.fenced or broker.shutting_down:
        return []
    return [BrokerShuttingDown(broker_id), *elections_after_loss(image, {broker_id}, rules_of)]


def checked_broker(image: ClusterImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker that a request comes from; STALE_BROKER_EPOCH when it comes from an older process of it."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        known = "is not registered" if broker is None else f"has the epoch {broker.broker_epoch}"
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} {known}, but asks with {broker_epoch}"
        )
    return broker


def unregister_broker(image: ClusterImage, broker_id: int, rules_of: RulesOf = default_rules) -> list[Record]:
    """A broker leaves for good. Its replicas stay assigned: a reassignment moves them.

    One that runs is refused: Kafka forgets it, and it runs on without anybody who knows of it.
    """
    if broker_id not in image.brokers:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )
    if image.is_live(broker_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker ID {broker_id} is running: stop it first, then unregister it"
        )
    return [*elections_after_loss(image, {broker_id}, rules_of), BrokerUnregistered(broker_id)]


# --- Configs ---------------------------------------------------------------------------------------------


def set_configs(
    image: ClusterImage, resource_type: ResourceType, resource_name: str, configs: Mapping[str, str]
) -> list[ConfigChanged]:
    """Makes these the only overrides of a resource; they have been validated."""
    before = image.configs(resource_type, resource_name)
    removed: dict[str, str | None] = {name: None for name in before if name not in configs}
    return change_configs(image, resource_type, resource_name, removed | dict(configs))


def change_configs(
    image: ClusterImage, resource_type: ResourceType, resource_name: str, changes: Mapping[str, str | None]
) -> list[ConfigChanged]:
    """Sets the named overrides and removes those with None; they have been validated."""
    if resource_type is ResourceType.TOPIC and resource_name not in image.topics_by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource_name}' does not exist.")
    before = image.configs(resource_type, resource_name)
    return [
        ConfigChanged(resource_type, resource_name, name, value)
        for name, value in changes.items()
        if before.get(name) != value
    ]


# --- Producer ids ----------------------------------------------------------------------------------------


def allocate_producer_ids(
    image: ClusterImage, broker_id: int, broker_epoch: int, count: int = PRODUCER_ID_BLOCK_SIZE
) -> ControllerResult[ProducerIdBlock]:
    """A block of ids for one broker to give out; ids that it has not used when it stops are lost."""
    checked_broker(image, broker_id, broker_epoch)
    first_id = image.next_producer_id
    if first_id > _MAX_PRODUCER_ID - count:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out")
    return ControllerResult(
        (ProducerIdsAllocated(broker_id, first_id, count),), ProducerIdBlock(first_id, count)
    )
