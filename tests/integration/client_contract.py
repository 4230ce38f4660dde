"""What every client under test can do, in one set of words, so that one scenario runs with all of them.

An adapter translates and nothing more: no retry, no default that the client does not have itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from moldau.protocol.errors import ErrorCode

PATIENCE_SECONDS = 30.0
#: Long enough for an answer that should not come; waited out only where nothing is expected.
SILENCE_SECONDS = 0.5

Header = tuple[str, bytes | None]


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp_ms: int | None = None


class Received(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    #: 0: the producer's time, 1: the broker's.
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Refused(Exception):
    """What the broker (or the client on its own) answered instead, by Kafka's name for it."""

    def __init__(self, code: int | str) -> None:
        known = isinstance(code, int) and code in ErrorCode._value2member_map_
        self.name = ErrorCode(code).name if known else str(code)
        super().__init__(self.name)


@dataclass(frozen=True)
class Producing:
    """How to produce; the rest is the client's own default."""

    acks: str | int = "all"
    idempotent: bool = True
    compression: str = "none"
    max_request_bytes: int | None = None
    linger_ms: int = 0


@dataclass(frozen=True)
class Consuming:
    read_committed: bool = False
    #: Of one partition in one fetch.
    max_partition_fetch_bytes: int | None = None
    #: Where to go on when the position is not in the log: earliest, latest or none.
    on_reset: str = "none"


DEFAULT_PRODUCING = Producing()
DEFAULT_CONSUMING = Consuming()


class Producer(Protocol):
    def send(self, topic: str, record: Sent, partition: int | None = 0) -> None: ...

    def flush(self, timeout: float = PATIENCE_SECONDS) -> list[int | Refused]:
        """Waits for everything that was sent since the last call; its offsets, in the order of sending."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    def assign(self, topic: str, offsets: Mapping[int, int]) -> None: ...

    def poll(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[Received]:
        """Up to ``count`` records; fewer when the time is over. Raises ``Refused``."""
        ...

    def seek(self, topic: str, partition: int, offset: int) -> None: ...
    def pause(self, topic: str, partition: int) -> None: ...
    def resume(self, topic: str, partition: int) -> None: ...
    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last."""
        ...

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None: ...
    def close(self) -> None: ...


class Client(Protocol):
    #: Calls that the library does not have.
    lacks: frozenset[str]
    #: What of Kafka's codecs it can use here, beside none.
    codecs: frozenset[str]

    def __init__(self, bootstrap_servers: str) -> None: ...
    def producer(self, how: Producing = DEFAULT_PRODUCING) -> Producer: ...
    def consumer(self, how: Consuming = DEFAULT_CONSUMING) -> Consumer: ...
    def close(self) -> None: ...

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def topics(self) -> dict[str, int]:
        """Every topic and how many partitions it has."""
        ...

    def create_partitions(self, topic: str, total: int) -> None: ...
    def configs(self, topic: str) -> dict[str, str]: ...
    def broker_configs(self, broker_id: int) -> dict[str, str]: ...
    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Changes these and leaves the others; a value ``None`` goes back to the default."""
        ...

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """These are all: the older call, which resets what it does not name."""
        ...

    def delete_records(self, topic: str, partition: int, before: int) -> int: ...
    def cluster(self) -> "Cluster": ...
    def list_offset(self, topic: str, partition: int, what: str | int) -> int:
        """``earliest``, ``latest``, ``max_timestamp`` or a timestamp."""
        ...


class Cluster(NamedTuple):
    controller_id: int
    broker_ids: tuple[int, ...]


@dataclass
class Pending:
    """What a producer has sent and not yet heard of."""

    outcomes: list[Any] = field(default_factory=list)

    def take(self) -> list[Any]:
        taken, self.outcomes = self.outcomes, []
        return taken


def values(records: Sequence[Received]) -> list[bytes | None]:
    return [record.value for record in records]


def offsets(records: Sequence[Received]) -> list[int]:
    return [record.offset for record in records]
