"""All that a handler may touch: the broker's services, and what is known of the request at hand.

Invariant: handlers take ``(request, context)`` and return a value; they hold no state of their own.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moldau.base.clock import Clock
from moldau.base.names import Uuid
from moldau.base.tasks import Background, Timers
from moldau.broker.access.authorized_operations import EVERY_OPERATION, REFUSALS
from moldau.broker.bounds.watchdog import Holds
from moldau.broker.monitoring.requests import RequestMetrics
from moldau.broker.monitoring.topic_failures import TopicFailures
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.controller.elections import RulesOf
from moldau.cluster.image import ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.protocol.errors import KafkaError
from moldau.replication.heavy_batches import HeavyBatches
from moldau.replication.replicas import Replicas
from moldau.replication.throttle import ReplicationThrottle
from moldau.security.acls import Operation, ResourceType
from moldau.security.principals import Principal

if TYPE_CHECKING:
    from moldau.broker.access.auditing import AuditLog
    from moldau.broker.access.authorization import Authorization
    from moldau.broker.connection import Connection
    from moldau.broker.coordination.producer_ids import ProducerIds
    from moldau.broker.coordination.shards import Coordinator
    from moldau.broker.coordination.transactions import Transactions
    from moldau.broker.fetch_sessions import FetchSessions
    from moldau.broker.forwarding import Forwarding, Unwrap
    from moldau.broker.monitoring.telemetry import ClientTelemetry
    from moldau.broker.purgatory import Purgatory
    from moldau.broker.restores import Restores
    from moldau.broker.schema_validation import SchemaValidator
    from moldau.coordinators.groups.shard import GroupShard
    from moldau.replication.branching import Branching
    from moldau.replication.links.controller_channel import ControllerChannel
    from moldau.replication.log_moves import LogMoves


class CloseConnection(Exception):
    """The only answer that fits is none: the connection is closed, and the log says why."""


@dataclass(slots=True)
class Services:
    """One broker, as its handlers see it; put together in ``node.py``."""

    node_id: int
    cluster_id: str
    clock: Clock
    timers: Timers
    background: Background
    settings: BrokerSettings
    metadata: Metadata
    replicas: Replicas
    branching: "Branching"
    #: Replicas on their way to another data directory.
    log_moves: "LogMoves"
    #: Asks another broker: its id, the request, and how many milliseconds it may take.
    ask_broker: "Callable[[int, Any, int], Awaitable[Any]]"
    restores: "Restores"
    purgatory: "Purgatory"
    fetch_sessions: "FetchSessions"
    producer_ids: "ProducerIds"
    groups: "Coordinator[GroupShard]"
    transactions: "Transactions"
    new_uuid: Callable[[], Uuid]
    new_seed: Callable[[], int]
    schemas: "SchemaValidator"
    heavy_batches: HeavyBatches
    #: What followers that are not in sync may be sent, of partitions that are throttled.
    leader_throttle: ReplicationThrottle
    #: The way to the controller, for this broker's own requests and for those of its clients.
    controller: "ControllerChannel"
    forwarding: "Forwarding"
    #: What configs say about the election of leaders.
    election_rules: RulesOf
    #: Handles what another broker has forwarded; set when there is a dispatch.
    unwrap: "Unwrap" = field(init=False)
    #: Set while the broker stops: new work is refused, waiting work is answered.
    stopping: bool = field(default=False)
    #: None where there is no authorizer: everybody may do everything.
    authorization: "Authorization | None" = None
    #: None where nothing is audited.
    audit: "AuditLog | None" = None
    #: Logins by listener and by whether they were let in.
    logins: "Counter[tuple[str, bool]]" = field(default_factory=Counter)
    #: What is counted of requests, by API.
    requests: RequestMetrics = field(default_factory=RequestMetrics)
    #: Who kept the event loop for too long, where a watchdog looks.
    holds: Holds = field(default_factory=Holds)
    #: What is counted of topics where something went wrong.
    topic_failures: TopicFailures = field(default_factory=TopicFailures)
    _telemetry: "ClientTelemetry | None" = None

    @property
    def telemetry(self) -> "ClientTelemetry":
        """What clients tell of themselves; most of them never do."""
        if self._telemetry is None:
            from moldau.broker.monitoring.telemetry import ClientTelemetry

            self._telemetry = ClientTelemetry(self.clock, self.settings)
        return self._telemetry

    @property
    def layers(self) -> ConfigLayers:
        """The configs of this broker, as they are laid over each other now."""
        layers: ConfigLayers = self.settings.layers
        return layers

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    @property
    def is_controller(self) -> bool:
        return self.metadata.controller_epoch is not None


class RequestContext:
    """What is known of one request beside its body."""

    #: Whether the request has so many elements that others should have their turn while it is answered.
    large = False

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "services")

    def __init__(
        self,
        services: Services,
        connection: "Connection",
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.services = services
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def listener(self) -> str:
        return self.connection.listener_name

    @property
    def principal(self) -> Principal:
        return self.connection.identity.principal

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether the client may do this; ``quiet`` where a no only leaves something out of an answer."""
        authorization = self.services.authorization
        return authorization is None or authorization.may(
            self.connection, self.api_key, operation, resource_type, name, quiet=quiet
        )

    def require(
        self, operation: Operation, resource_type: ResourceType, name: str, *, said: bool = False
    ) -> None:
        """KafkaError when the client may not do this; ``said`` where the answer has words for it."""
        if not self.may(operation, resource_type, name):
            code, text = REFUSALS[resource_type]
            raise KafkaError(code, text if said else None)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """What the client may do with a resource, as a bit field."""
        authorization = self.services.authorization
        if authorization is None:
            return EVERY_OPERATION[resource_type]
        return authorization.operations(self.connection, resource_type, name)

    def check_between_brokers(self) -> None:
        """Closes the connection unless it came to the listener that is for brokers, as Kafka does."""
        if self.listener != self.services.settings.inter_broker_listener.name:
            raise CloseConnection(f"API key {self.api_key} is for brokers, not for listener {self.listener}")


class LargeRequestContext(RequestContext):
    large = True

    __slots__ = ()
