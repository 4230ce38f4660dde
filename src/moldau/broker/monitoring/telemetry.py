"""What clients tell of themselves (KIP-714): which metrics each is asked for, and what they have pushed.

Subscriptions are configs of the cluster. What a client pushed last is shown among the broker's metrics until
three more pushes were due: a dead client has no numbers.

Invariant: clients and numbers that are remembered are bounded, and so are their bytes; the client that was
silent for longest goes first.
"""

from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping
from functools import cache
from typing import Any

from moldau.base.clock import Clock
from moldau.base.names import Uuid, format_uuid
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import ResourceType
from moldau.metrics import broker_metrics as names
from moldau.metrics.otlp import NotOtlp, Point, decode_metrics
from moldau.metrics.prometheus import braces, number
from moldau.metrics.readings import Reading, Sources, one
from moldau.metrics.table import TABLE
from moldau.protocol.checksum import crc32c
from moldau.protocol.compression import Compression, decompress
from moldau.protocol.errors import ErrorCode, KafkaError

ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
EVERYTHING = "*"
_DEFAULT_INTERVAL_MS = 300_000
#: How long the numbers of a client with short intervals stay.
_SHOWN_LEAST_MS = 60_000
_INSTANCES_MOST = 16_384
#: Clients whose numbers are kept, and numbers of each.
_PUSHERS_MOST = 1_000
_NUMBERS_MOST = 1_000
#: Characters of a number's name and attributes: those of Kafka's clients have some hundred.
_CHARACTERS_MOST = 2_000
#: About what a number takes beside its characters, and what the numbers of all clients may take.
_NUMBER_BYTES = 400
_ALL_BYTES_MOST = 64 * 1024 * 1024
#: What a push may become when it is decompressed.
_UNCOMPRESSED_MOST = 8 * 1024 * 1024
#: What lets a client ask again before its time.
_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class Instance:
    """One client, by the id that it was given."""

    __slots__ = (
        "asked_at",
        "interval_ms",
        "last_error",
        "metrics",
        "pushed_at",
        "subscription_id",
        "terminating",
    )

    def __init__(self, subscription_id: int, metrics: tuple[str, ...], interval_ms: int) -> None:
        self.subscription_id = subscription_id
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.asked_at = self.pushed_at = -1 << 62
        self.terminating = False
        self.last_error = ErrorCode.NONE


class Pushed:
    """What one client has pushed: numbers by name and attributes."""

    __slots__ = ("labels", "numbers", "size", "totals", "until_ms")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = dict(labels)
        self.numbers: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.totals: set[str] = set()
        #: About how many bytes it takes.
        self.size = 0
        #: When it is shown no longer, unless more is pushed before.
        self.until_ms = 0

    def take(self, point: Point) -> None:
        """Keeps a number, unless it is one too many, or too large for one."""
        name, attributes, value, is_delta, is_total = point
        key = (name, attributes)
        if key not in self.numbers:
            characters = len(name) + sum(len(each) + len(text) for each, text in attributes)
            if len(self.numbers) >= _NUMBERS_MOST or characters > _CHARACTERS_MOST:
                return
            self.size += _NUMBER_BYTES + characters
        self.numbers[key] = self.numbers.get(key, 0.0) + value if is_delta else value
        if is_total:
            self.totals.add(name)


class ClientTelemetry:
    def __init__(self, clock: Clock, settings: BrokerSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._instances: OrderedDict[Uuid, Instance] = OrderedDict()
        self.pushed: OrderedDict[Uuid, Pushed] = OrderedDict()
        self.unknown_subscriptions = 0
        self.pushes = 0

    # --- what a client is asked for -------------------------------------------------------------

    def subscribe(self, client: Uuid, properties: Mapping[str, str], image: ClusterImage) -> Instance:
        """What a client shall push; KafkaError when it asks too often."""
        instance = self._instance(client, properties, image)
        now_ms = self._clock.now_ms()
        early = now_ms - max(instance.asked_at, instance.pushed_at) < instance.interval_ms
        if early and instance.last_error not in _ASK_AGAIN:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        instance.asked_at = now_ms
        instance.last_error = ErrorCode.NONE
        return instance

    def _instance(self, client: Uuid, properties: Mapping[str, str], image: ClusterImage) -> Instance:
        metrics, interval_ms = subscription_of(
            image, {**properties, "client_instance_id": format_uuid(client)}
        )
        subscription_id = subscription_id_of(metrics, interval_ms, client)
        known = self._instances.pop(client, None)
        if known is None or known.subscription_id != subscription_id:
            renewed = Instance(subscription_id, metrics, interval_ms)
            if known is not None:
                renewed.pushed_at, renewed.terminating = known.pushed_at, known.terminating
            known = renewed
            if len(self._instances) >= _INSTANCES_MOST:
                self._instances.popitem(last=False)
        self._instances[client] = known
        return known

    # --- what it pushes ---------------------------------------------------------------------------

    def push(
        self, client: Uuid, properties: Mapping[str, str], image: ClusterImage, request: Any
    ) -> Generator[None, None, None]:
        """Takes a push, in steps; KafkaError, before the first one, when it may not be."""
        instance = self._instance(client, properties, image)
        try:
            self._check(instance, request)
        except KafkaError as error:
            instance.last_error = error.code
            if error.code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
                self.unknown_subscriptions += 1
            raise
        finally:
            instance.terminating = instance.terminating or request.terminating
        # A copy: the request's own bytes are good for as long as it is handled at once.
        return self._take(instance, client, properties, request.compression_type, bytes(request.metrics))

    def _check(self, instance: Instance, request: Any) -> None:
        if instance.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.now_ms()
        in_time = (
            instance.asked_at > instance.pushed_at or now_ms - instance.pushed_at >= instance.interval_ms
        )
        if in_time:
            # Later than the question even within the same millisecond.
            instance.pushed_at = max(now_ms, instance.asked_at)
        elif not request.terminating:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if request.subscription_id != instance.subscription_id:
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if request.compression_type not in (Compression.NONE, *ACCEPTED):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(request.metrics) > self._settings["telemetry.max.bytes"]:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _take(
        self, instance: Instance, client: Uuid, properties: Mapping[str, str], codec: int, compressed: bytes
    ) -> Generator[None, None, None]:
        try:
            data = decompress(codec, compressed, _UNCOMPRESSED_MOST) if compressed else b""
        except KafkaError:
            instance.last_error = ErrorCode.INVALID_RECORD
            raise KafkaError(ErrorCode.INVALID_RECORD) from None
        self.pushes += 1
        if not data:
            return
        labels = {
            "client_instance_id": format_uuid(client),
            "client_id": properties.get("client_id", ""),
            "client_software_name": properties.get("client_software_name", ""),
        }
        known = self.pushed.get(client) or Pushed(labels)
        known.until_ms = self._clock.now_ms() + max(_SHOWN_LEAST_MS, 3 * instance.interval_ms)
        try:
            for point in decode_metrics(data):
                yield
                if point is not None:
                    known.take(point)
        except NotOtlp:
            pass  # Kafka hands bytes on without a look, and answers that all is well
        self._remember(client, known)

    def _remember(self, client: Uuid, known: Pushed) -> None:
        self.pushed.pop(client, None)
        size = known.size + sum(each.size for each in self.pushed.values())
        while self.pushed and (len(self.pushed) >= _PUSHERS_MOST or size > _ALL_BYTES_MOST):
            _, forgotten = self.pushed.popitem(last=False)
            size -= forgotten.size
        self.pushed[client] = known

    # --- shown --------------------------------------------------------------------------------------

    def register(self, sources: Sources) -> None:
        sources.add("kafka.server", "client-metrics", self.readings)

    def readings(self) -> Iterable[Reading]:
        yield one(names.CLIENT_INSTANCES, len(self._instances))
        yield one(names.UNKNOWN_SUBSCRIPTIONS, self.unknown_subscriptions)
        yield one(names.TELEMETRY_PUSHES, self.pushes)

    def exposition(self, *, openmetrics: bool = False) -> Iterable[str]:
        """What clients pushed, as Prometheus reads it; an empty line where others may have their turn.

        A scrape is one text: no client may write what spoils it for all, or passes for the broker's own.
        """
        families: dict[str, list[str]] = {}
        totals: set[str] = set()
        now_ms = self._clock.now_ms()
        for client in [client for client, pushed in self.pushed.items() if pushed.until_ms < now_ms]:
            del self.pushed[client]
        for pushed in list(self.pushed.values()):
            for (name, attributes), value in list(pushed.numbers.items()):
                yield ""
                written = _written(name)
                if name in pushed.totals:
                    written = written.removesuffix("_total") + "_total"
                    totals.add(written)
                if written in _own_names():
                    continue
                labels = {_label(key): text for key, text in attributes} | pushed.labels
                line = f"{written}{braces(tuple(labels), tuple(labels.values()))} {number(value)}\n"
                families.setdefault(written, []).append(line)
        for name, lines in families.items():
            kind = "counter" if name in totals else "gauge"
            shown = name.removesuffix("_total") if openmetrics and kind == "counter" else name
            yield f"# HELP {shown} Pushed by clients (KIP-714)\n# TYPE {shown} {kind}\n"
            yield from lines


@cache
def _own_names() -> frozenset[str]:
    return frozenset(name for metric in TABLE for name in metric.prometheus_names)


def _written(name: str) -> str:
    """A name that Prometheus takes."""
    plain = "".join(each if each.isalnum() and each.isascii() else "_" for each in name) or "_"
    return f"_{plain}" if plain[0].isdigit() else plain


def _label(name: str) -> str:
    """The same for a label; those that begin with two underscores are Prometheus' own."""
    plain = _written(name)
    return "_" + plain.lstrip("_") if plain.startswith("__") else plain


def subscription_of(image: ClusterImage, properties: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
    """The metrics that a client is asked for, and how often: of all subscriptions that match it together."""
    metrics: dict[str, None] = {}
    interval_ms = _DEFAULT_INTERVAL_MS
    for (kind, _), configs in image.overrides.items():
        if kind is not ResourceType.CLIENT_METRICS or not _matches(configs.get("match", ""), properties):
            continue
        metrics.update(
            dict.fromkeys(name.strip() for name in configs.get("metrics", "").split(",") if name.strip())
        )
        interval_ms = min(interval_ms, int(configs.get("interval.ms", _DEFAULT_INTERVAL_MS)))
    return ((EVERYTHING,) if EVERYTHING in metrics else tuple(metrics)), interval_ms


def _matches(match: str, properties: Mapping[str, str]) -> bool:
    if not match.strip():
        return True
    import re  # most clusters have no subscriptions

    from moldau.cluster.configs.topic_configs import parse_client_match

    patterns = parse_client_match(tuple(each for each in match.split(",") if each.strip()))
    return all(re.fullmatch(pattern, properties.get(name, "")) for name, pattern in patterns.items())


def subscription_id_of(metrics: tuple[str, ...], interval_ms: int, client: Uuid) -> int:
    """Kafka's: the checksum of what is asked for, together with the client's id."""
    crc = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    halves = int.from_bytes(client[:8], "big") ^ int.from_bytes(client[8:], "big")
    mixed = (crc ^ (halves >> 32) ^ halves) & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed
