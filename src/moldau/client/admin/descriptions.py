"""What goes into and comes out of ``admin``: values with Kafka's own words.

Values only: nothing here sends or decides.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from moldau.base.names import ZERO_UUID, Uuid
from moldau.base.settings import SettingType
from moldau.client.transport.cluster import NO_OPERATIONS, Broker

#: Timestamps with a meaning of their own in ``Admin.list_offsets``.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class ResourceType(IntEnum):
    """What a config belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a config comes from, by the names that Kafka's tools print."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


ConfigType = SettingType


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by its name, a broker by its id in decimal ("" for the default of all brokers), and so on."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves a number to the broker; assignments (partition -> brokers) stand instead of both numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: dict[int, list[int]] = field(default_factory=dict)
    configs: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What the broker chose; -1 and no configs where it does not say."""

    name: str
    topic_id: Uuid = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[ConfigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The number of partitions a topic shall have; one list of brokers for each new one, if at all."""

    total_count: int
    assignments: list[list[int]] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    #: None where the broker does not say (it has no DescribeTopicPartitions).
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: int = NO_OPERATIONS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The answer of ``list_offsets``; offset and timestamp are -1 where no record fits."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A partition in a log directory."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; -1 bytes where the broker does not say."""

    path: str
    error_code: int
    replicas: dict[tuple[str, int], ReplicaInfo]
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced: frozenset[int] = frozenset()
    authorized_operations: int = NO_OPERATIONS


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that a partition remembers; -1 where a number is not known."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


@dataclass(frozen=True, slots=True)
class Features:
    """Ranges that the broker can do and levels that the cluster has agreed on."""

    supported: dict[str, tuple[int, int]]
    finalized: dict[str, tuple[int, int]]
    epoch: int
