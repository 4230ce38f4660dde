"""What a decision about groups is made with, and where its outcome is gathered.

Invariant: gathers and nothing else; a decision that is under way is never seen by anybody but its maker.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.coordinators.machine import Alarm, Reply, Step, Token, Writer


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of the coordinator, under the names of the broker's configuration."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_max_size: int = 2_147_483_647
    #: Names of assignors, the one that is taken when no member asks for another first.
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"


class Client(NamedTuple):
    """Who asks: the client id of the request and the address, as Kafka shows it (``/127.0.0.1``)."""

    client_id: str
    host: str


class Parked(NamedTuple):
    """A request that waits; the version says in which form it will be answered."""

    token: Token
    version: int


class Decision:
    """Records, replies and alarms of one decision while it is being made."""

    __slots__ = ("alarms", "atomic", "new_id", "now_ms", "records", "replies", "settings", "writer")

    def __init__(self, now_ms: int, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.now_ms = now_ms
        self.settings = settings
        self.new_id = new_id
        self.records: list[Any] = []
        self.replies: list[Reply] = []
        self.alarms: dict[Hashable, int | None] = {}
        self.writer: Writer | None = None
        #: False when each record makes sense alone, as deletions do.
        self.atomic = True

    def reply(self, token: Token, response: Any) -> None:
        self.replies.append(Reply(token, response))

    def ring_in(self, key: Hashable, delay_ms: int) -> None:
        self.alarms[key] = delay_ms

    def silence(self, key: Hashable) -> None:
        self.alarms[key] = None

    def step(self) -> Step:
        return Step(
            tuple(self.records),
            tuple(self.replies),
            tuple(Alarm(key, None if ms is None else ms / 1000) for key, ms in self.alarms.items()),
            self.writer,
            atomic=self.atomic,
        )
