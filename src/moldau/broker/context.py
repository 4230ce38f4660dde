"""All that a handler may touch: the broker's services, and what is known of the request at hand.

Invariant: handlers take ``(request, context)`` and return a value; they hold no state of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.base.clock import Clock
from moldau.base.names import Uuid
from moldau.base.tasks import Background, Timers
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.configs.layers import ConfigLayers
from moldau.cluster.image import ClusterImage
from moldau.cluster.metadata import Metadata
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.broker.connection import Connection
    from moldau.broker.coordination.producer_ids import ProducerIds
    from moldau.broker.coordination.shards import Coordinator
    from moldau.broker.coordination.transactions import Transactions
    from moldau.broker.fetch_sessions import FetchSessions
    from moldau.broker.purgatory import Purgatory
    from moldau.broker.restores import Restores
    from moldau.broker.schema_validation import SchemaValidator
    from moldau.coordinators.groups.shard import GroupShard
    from moldau.replication.branching import Branching


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
    restores: "Restores"
    purgatory: "Purgatory"
    fetch_sessions: "FetchSessions"
    producer_ids: "ProducerIds"
    groups: "Coordinator[GroupShard]"
    transactions: "Transactions"
    new_uuid: Callable[[], Uuid]
    new_seed: Callable[[], int]
    schemas: "SchemaValidator"
    #: Set while the broker stops: new work is refused, waiting work is answered.
    stopping: bool = field(default=False)

    @property
    def layers(self) -> ConfigLayers:
        """The configs of this broker, as they are laid over each other now."""
        layers: ConfigLayers = self.settings.layers
        return layers

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image


class RequestContext:
    """What is known of one request beside its body."""

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
