"""A leader's partitions and fetch sessions without a socket, and readers who ask two of them the same.

Invariant: a world does nothing by itself. What is to be delivered soon waits until ``settle``, and time
stands until the clock is advanced.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from moldau.base.clock import SteppedClock
from moldau.base.tasks import Background, Timers
from moldau.broker.apis import fetch
from moldau.broker.bounds.turns import at_once
from moldau.broker.context import RequestContext
from moldau.broker.fetch_sessions import FetchSessions
from moldau.broker.monitoring.requests import RequestMetrics
from moldau.broker.monitoring.topic_failures import TopicFailures
from moldau.broker.purgatory import Parked, Purgatory
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.image import EMPTY_IMAGE
from moldau.protocol.codec import decode, encode, writer
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.fetch import FetchRequest
from moldau.replication.commit_notices import CommitNotices
from moldau.replication.isr import FollowerProgress
from moldau.replication.partition import Partition
from moldau.replication.replicas import Replicas
from moldau.replication.throttle import ReplicationThrottle
from moldau.storage.directory.logs import Logs
from moldau.storage.files import MemoryFiles
from moldau.storage.log.log import LogConfig

NOW = 1_700_000_000_000
LEADER = 1
LAG_TIME_MS = 10_000
#: The configs of a topic that its replicas look at.
VALUES: Mapping[str, Any] = {"min.insync.replicas": 1, "moldau.mirror.state": "none"}
_FETCH = 1


class NoLoop:
    """For timers that only the clock of a test moves."""

    def call_later(self, seconds: float, callback: object) -> "NoLoop":
        return self

    def cancel(self) -> None:
        pass

    def call_soon_threadsafe(self, callback: Any) -> None:
        callback()

    def is_closed(self) -> bool:
        return False


class Proposer:
    """Remembers what a leader proposes; the test decides what becomes of it."""

    lag_time_ms = LAG_TIME_MS

    def __init__(self, world: "World") -> None:
        self._world = world
        self.proposed: list[tuple[Partition, tuple[int, ...]]] = []

    def is_eligible(self, broker_id: int) -> bool:
        broker = self._world.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.proposed.append((partition, isr))


class Refusals:
    """An authorizer that refuses to read some topics, by name."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def may(
        self, connection: object, api_key: int, operation: int, kind: int, name: str, **how: bool
    ) -> bool:
        return name not in self.names


class Answer(NamedTuple):
    number: int
    version: int
    content: bytes


class World:
    def __init__(self, watches_from: int, selector: str, refusals: Refusals | None) -> None:
        self.clock = SteppedClock(frozen=True, start_ms=NOW)
        logs = Logs(MemoryFiles(), ["/data"], LEADER, None, self.clock, config_of=lambda topic: LogConfig())
        logs.open()
        self.image = EMPTY_IMAGE
        self.proposer = Proposer(self)
        self.replicas = Replicas(
            LEADER,
            logs,
            ThreadPoolExecutor(1),
            Background(),
            lambda image, topic: VALUES,
            clock=self.clock,
            isr_proposer=self.proposer,
        )
        self._soon: list[Any] = []
        self.replicas._notices = CommitNotices(self._soon.append, at_once=-1)
        self.purgatory = Purgatory(Timers(self.clock, NoLoop()), 1_000)  # type: ignore[arg-type]
        ids = count(1)
        self.sessions = FetchSessions(
            self.clock, load_broker_settings({}), lambda: next(ids), watches_from=watches_from
        )
        self.throttle = ReplicationThrottle(lambda: 200, self.clock)
        self.answers: list[Answer] = []
        self.parked: dict[int, Parked] = {}
        listener = SimpleNamespace(name="PLAINTEXT")
        self._settings = SimpleNamespace(
            fetch_max_bytes=1 << 20, replica_selector_class=selector, inter_broker_listener=listener
        )
        self._services: Any = SimpleNamespace(
            clock=self.clock,
            settings=self._settings,
            replicas=self.replicas,
            fetch_sessions=self.sessions,
            purgatory=self.purgatory,
            leader_throttle=self.throttle,
            requests=RequestMetrics(),
            topic_failures=TopicFailures(),
            authorization=refusals,
            stopping=False,
        )
        self._connection: Any = SimpleNamespace(listener_name="PLAINTEXT", principal="User:me", host="h")

    def change(self, *records: Any) -> None:
        old, self.image = self.image, self.image.apply_all(records, version=self.image.version + 1)
        self._services.image = self.image
        self.replicas.apply(old, self.image)

    def resume(self) -> None:
        self.replicas.resume(self.image)

    def settle(self) -> None:
        """What was to be called soon is called."""
        while self._soon:
            self._soon.pop(0)()

    # --- fetches ------------------------------------------------------------------------------------

    def handle(self, request: FetchRequest, version: int) -> Any:
        """What the handler returns."""
        return fetch.handle(request, self._context(version))

    def ask(self, number: int, request: FetchRequest, version: int) -> None:
        received = decode(FetchRequest, version, bytearray(encode(request, version)))
        context = self._context(version)
        try:
            result: Any = fetch.handle(received, context)
        except KafkaError as error:
            result = error
        self._take(number, version, context, received, result)

    def _context(self, version: int) -> RequestContext:
        return RequestContext(self._services, self._connection, _FETCH, version, 1, "reader")

    def _take(self, number: int, version: int, context: Any, request: Any, result: Any) -> None:
        while True:
            if isinstance(result, Parked):
                self.parked[number] = result
                self.purgatory.park(
                    result, lambda later: self._take(number, version, context, request, later)
                )
                return
            if hasattr(result, "send"):
                result = at_once(result)
                continue
            break
        self.parked.pop(number, None)
        if isinstance(result, Exception):
            if not isinstance(result, KafkaError):
                raise result
            result = fetch.fail(request, result, context)
        out = bytearray()
        splices: list[tuple[int, Any]] = []
        writer(type(result), version)(result, out, splices)
        for position, part in reversed(splices):
            out[position:position] = part.read()
        self.answers.append(Answer(number, version, bytes(out)))

    def disconnect(self, number: int) -> None:
        parked = self.parked.pop(number, None)
        if parked is not None:
            self.purgatory.cancel(parked)

    def expire(self) -> None:
        """The time of all fetches that wait is up, one after the other."""
        for _, parked in sorted(self.parked.items()):
            self.purgatory._try(parked, True)

    def take_answers(self) -> list[Answer]:
        answers, self.answers = sorted(self.answers), []
        return answers

    # --- what can be compared -----------------------------------------------------------------------

    def state(self) -> list[object]:
        return [_state(each) for each in sorted(self.replicas, key=lambda each: each.topic_partition)]

    def watched(self) -> int:
        return sum(len(each.watchers) for each in self.replicas)


def _state(partition: Partition) -> object:
    log, leading = partition.log, partition.leading
    known: object = None
    if leading is not None:
        followers = {who: _progress(partition, each) for who, each in leading.followers.items()}
        known = (leading.isr, leading.proposed, leading.maximal_isr, leading.partition_epoch, followers)
    ends = None if log is None else (log.log_start_offset, log.log_end_offset)
    role = partition.leader, partition.leader_epoch, partition.isr
    return (partition.topic_partition, role, partition.high_watermark, ends, known)


def _progress(partition: Partition, progress: FollowerProgress) -> object:
    """What is known of a follower; of one that idles, the session has the time of its last fetch."""
    watching: Any = partition.watchers._watching
    times = [0, *(each.session.fetched_ms for each in watching if each.progress is progress)]
    return (
        progress.log_end_offset,
        progress.log_start_offset,
        max(progress.caught_up_ms, *times),
        max(progress.fetched_ms, *times),
        progress.leader_end_at_fetch,
        progress.broker_epoch,
    )
