"""One operation of the group coordinator while it is decided: it collects the ``CoordinatorResult``."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from moldau.coordinators.groups.environment import GroupSettings
from moldau.coordinators.shard import CoordinatorResult, ProducerIdAndEpoch, Reply, TimerChange, Token


class Client(NamedTuple):
    """The client id of a request and the client's address as Kafka shows it (``/127.0.0.1``)."""

    client_id: str
    host: str
    #: Whether it may know of a topic; None where everybody may know of all.
    may_describe: Callable[[str], bool] | None = None


class WaitingRequest(NamedTuple):
    """A request without a reply so far; the reply depends on its version."""

    token: Token
    version: int


class Operation:
    """Collects the records, replies and timers of one request or timer, with what is needed to decide it."""

    __slots__ = ("atomic", "new_id", "now_ms", "producer", "records", "replies", "settings", "timers")

    def __init__(self, now_ms: int, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self.now_ms = now_ms
        self.settings = settings
        self.new_id = new_id
        self.records: list[Any] = []
        self.replies: list[Reply] = []
        self.timers: dict[Hashable, int | None] = {}
        self.producer: ProducerIdAndEpoch | None = None
        #: False when each record makes sense alone, as tombstones do.
        self.atomic = True

    def reply(self, token: Token, response: Any) -> None:
        self.replies.append(Reply(token, response))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        self.timers[key] = delay_ms

    def cancel_timer(self, key: Hashable) -> None:
        self.timers[key] = None

    def result(self) -> CoordinatorResult:
        return CoordinatorResult(
            tuple(self.records),
            tuple(self.replies),
            tuple(TimerChange(key, None if ms is None else ms / 1000) for key, ms in self.timers.items()),
            self.producer,
            atomic=self.atomic,
        )
