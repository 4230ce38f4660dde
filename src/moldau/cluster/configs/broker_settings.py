"""The settings of a running broker: from properties as text, with later dynamic changes, to typed values.

All parts of a broker share one ``BrokerSettings`` object, so that they see a dynamic change at once.

Invariant: any server.properties of Kafka is accepted. Settings without effect are named in one warning;
invalid ones are refused all at once, each with its value and what is allowed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moldau.base.settings import SettingError, Value, nearest_name
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS, broker_setting
from moldau.cluster.configs.layers import NO_CONFIGS, ConfigLayers
from moldau.cluster.configs.listeners import Listeners, broker_listeners
from moldau.cluster.configs.topic_configs import TOPIC_SETTINGS
from moldau.cluster.configs.without_effect import settings_without_effect
from moldau.cluster.records import Endpoint

#: Names of the same setting, best first: one on the command line overrides all of them in the file.
_ALIASES = (
    ("node.id", "broker.id"),
    ("log.dirs", "log.dir"),
    *{
        setting.synonyms: [name for name, _ in setting.synonyms] for setting in BROKER_SETTINGS.values()
    }.values(),
)

_DEFAULT_NODE_ID = "1"

_KAFKA_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor"
#: What group.consumer.assignors may contain: our assignors, by name or by the class names of Kafka's.
CONSUMER_ASSIGNORS = {
    "uniform": "uniform",
    "range": "range",
    f"{_KAFKA_ASSIGNORS}.UniformAssignor": "uniform",
    f"{_KAFKA_ASSIGNORS}.RangeAssignor": "range",
}
#: These become the segment.bytes of internal topics, which has a lower bound.
_INTERNAL_TOPICS_SEGMENT_BYTES = ("offsets.topic.segment.bytes", "transaction.state.log.segment.bytes")
_LEAST_SEGMENT_BYTES = 1024 * 1024

#: Dynamic in Kafka; here a change needs a restart.
RESTART_ONLY = ("listeners", "listener.security.protocol.map")


class BrokerSettings:
    """Every setting of the table, typed: ``settings["num.partitions"]`` or ``settings.num_partitions``.

    As attributes ``listeners`` and ``advertised_listeners`` are parsed, and ``log_dirs`` is resolved.
    """

    #: What was set at start, as text, including settings without effect.
    static: Mapping[str, str]
    #: Where each of them comes from: ``properties``, ``overrides`` or ``default``.
    origins: Mapping[str, str]
    #: Sentences for the log at start; at most one about settings that are unknown or have no effect.
    warnings: tuple[str, ...]
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    inter_broker_listener: Endpoint
    log_dirs: tuple[str, ...]

    def __init__(
        self,
        static: Mapping[str, str],
        origins: Mapping[str, str],
        listeners: Listeners,
        warnings: tuple[str, ...],
    ) -> None:
        self.layers = ConfigLayers(static)
        self._values: dict[str, Value] = {name: self.layers.value(name) for name in BROKER_SETTINGS}
        # In the instance's dictionary, because the hot path reads some of them.
        self.__dict__.update((name.replace(".", "_"), value) for name, value in self._values.items())
        self.static = static
        self.origins = origins
        self.warnings = warnings
        self.listeners = listeners.bound
        self.advertised_listeners = listeners.advertised
        self.inter_broker_listener = listeners.inter_broker
        self.log_dirs = self["log.dirs"] or self["log.dir"]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no setting {name.replace('_', '.')}")

    def change(self, default_broker: Mapping[str, str], broker: Mapping[str, str]) -> frozenset[str]:
        """Applies the dynamic configs of all brokers and of this one; returns the settings that changed."""
        before = self.layers
        self.layers = ConfigLayers(before.static, dict(default_broker), dict(broker))
        touched = {*before.default_broker, *before.broker, *default_broker, *broker} & self._values.keys()
        changed = set()
        for name in touched:
            value = self.layers.value(name)
            if value != self._values[name] and name not in RESTART_ONLY:
                self._values[name] = value
                self.__dict__[name.replace(".", "_")] = value
                changed.add(name)
        return frozenset(changed)

    def at_most_brokers(self, name: str, broker_count: int) -> int:
        """A replica count for an internal topic, limited by the number of brokers."""
        return max(1, min(int(self._values[name]), broker_count))  # type: ignore[arg-type]


def load_broker_settings(
    properties: Mapping[str, str], overrides: Mapping[str, str] = NO_CONFIGS
) -> BrokerSettings:
    """Settings from a file, overridden by those of a command line; SettingError names all invalid ones."""
    origins = _origins(properties, overrides)
    given = {
        name: (overrides if origin == "overrides" else properties)[name] for name, origin in origins.items()
    }
    problems = _invalid_values(given)
    node_id = _node_id(given, problems)
    static = {name: text for name, text in given.items() if broker_setting(name) is not None}
    for name in ("node.id", "broker.id"):
        static[name] = node_id
        origins.setdefault(name, "default")
    if problems:
        raise _refusal(problems)
    layers = ConfigLayers(static)
    problems.extend(SettingError("", rule) for rule in broken_rules(layers))
    if "inter.broker.listener.name" in given and "security.inter.broker.protocol" in given:
        message = "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        problems.append(SettingError("inter.broker.listener.name", message))
    try:
        listeners = broker_listeners({name: layers.value(name) for name in BROKER_SETTINGS})
    except SettingError as error:
        raise _refusal([*problems, error]) from None
    if problems:
        raise _refusal(problems)
    warning = _warning(given, listeners.left_out)
    return BrokerSettings(static, origins, listeners, (warning,) if warning else ())


def _origins(properties: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    hidden = {
        name
        for names in _ALIASES
        for name in names
        if name not in overrides and overrides.keys() & set(names)
    }
    origins = {name: "properties" for name in properties if name not in hidden}
    origins.update(dict.fromkeys(overrides, "overrides"))
    return origins


def _invalid_values(given: Mapping[str, str]) -> list[SettingError]:
    problems = []
    for name, text in given.items():
        if name in BROKER_SETTINGS:
            try:
                BROKER_SETTINGS[name].parse(text)
            except SettingError as error:
                problems.append(error)
    return problems


def _node_id(given: Mapping[str, str], problems: list[SettingError]) -> str:
    node_id, broker_id = given.get("node.id"), given.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        message = "You must set `node.id` to the same value as `broker.id`."
        problems.append(SettingError("node.id", f"{message} They are {node_id} and {broker_id}."))
    # Before Kafka 3 a broker.id of -1 asked for a generated id; now there is a default.
    known = (node_id if node_id is not None else broker_id) or _DEFAULT_NODE_ID
    if node_id is None and known.strip() == "-1":
        known = _DEFAULT_NODE_ID
    problems.extend(_invalid_values({"node.id": known}) if node_id is None else ())
    return known.strip()


def _refusal(problems: list[SettingError]) -> SettingError:
    return SettingError(problems[0].name, "\n".join(map(str, problems)))


def _warning(given: Mapping[str, str], left_out: tuple[str, ...]) -> str | None:
    """One sentence for all settings without effect."""
    parts = []
    ignored = [
        name
        for name in given
        if (setting := broker_setting(name)) is not None and setting.name not in BROKER_SETTINGS
    ]
    if ignored:
        parts.append(f"these settings of Kafka have no effect here: {', '.join(ignored)}")
    unknown = [_with_suggestion(name) for name in given if broker_setting(name) is None]
    if unknown:
        parts.append(f"these settings are not known: {', '.join(unknown)}")
    if left_out:
        parts.append(f"these listeners of controller.listener.names are not opened: {', '.join(left_out)}")
    return "; ".join(parts) or None


def _with_suggestion(name: str) -> str:
    topic_setting = TOPIC_SETTINGS.get(name)
    if topic_setting is not None and topic_setting.synonyms:
        return f"{name} (of a topic; for all of them: {topic_setting.synonyms[0][0]})"
    nearest = nearest_name(name, [*BROKER_SETTINGS, *settings_without_effect()])
    return f"{name} (did you mean {nearest}?)" if nearest else name


# ------------------------------------------------------------------------ what values must be to each other


def broken_rules(layers: ConfigLayers) -> list[str]:
    """What is wrong between settings that are each valid alone, in Kafka's messages."""
    value: Callable[[str], Any] = layers.value
    retention: Any = layers.first_value(BROKER_SETTINGS["log.retention.ms"].synonyms)
    roll: Any = layers.first_value(BROKER_SETTINGS["log.roll.ms"].synonyms)
    jitter: Any = layers.first_value(BROKER_SETTINGS["log.roll.jitter.ms"].synonyms)
    buffered = value("queued.max.request.bytes")
    cleaner_bytes = value("log.cleaner.dedupe.buffer.size") // max(1, value("log.cleaner.threads"))
    wait = value("replica.fetch.wait.max.ms")
    overrides = value("max.connections.per.ip.overrides")
    rules = (
        (retention != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (roll >= 1, "log.roll.ms must be greater than or equal to 1"),
        (jitter >= 0, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            buffered <= 0 or buffered >= value("socket.request.max.bytes"),
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            value("max.connections.per.ip") > 0 or overrides,
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property "
            "is set.",
        ),
        (
            parse_connection_limits(overrides) is not None,
            f"max.connections.per.ip.overrides must be host:limit,host:limit, but it is {overrides}",
        ),
        (
            cleaner_bytes > 1024 * 1024,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            value("replica.socket.timeout.ms") >= wait,
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
            "to prevent unnecessary socket timeouts",
        ),
        (
            value("replica.lag.time.max.ms") >= wait,
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
            "to prevent frequent changes in ISR",
        ),
        (
            "classic" in value("group.coordinator.rebalance.protocols"),
            "Disabling the 'classic' protocol is not supported.",
        ),
        (
            0 <= value("offsets.topic.compression.codec") <= 4,
            f"Unknown compression type id: {value('offsets.topic.compression.codec')}",
        ),
    )
    broken = [sentence for kept, sentence in rules if not kept]
    return broken + _broken_group_rules(value) + _broken_coordinator_rules(value)


def _broken_coordinator_rules(value: Callable[[str], Any]) -> list[str]:
    """What would otherwise fail only with the first group or transaction."""
    broken = [
        f"{name} must be at least {_LEAST_SEGMENT_BYTES}, the smallest segment.bytes of a topic, but it is "
        f"{value(name)}: without it that topic cannot be created"
        for name in _INTERNAL_TOPICS_SEGMENT_BYTES
        if value(name) < _LEAST_SEGMENT_BYTES
    ]
    unknown = [name for name in value("group.consumer.assignors") if name not in CONSUMER_ASSIGNORS]
    if unknown:
        broken.append(
            f"group.consumer.assignors names {', '.join(unknown)}, which this broker does not have; it has "
            f"{' and '.join(dict.fromkeys(CONSUMER_ASSIGNORS.values()))}"
        )
    return broken


def _broken_group_rules(value: Callable[[str], Any]) -> list[str]:
    broken = []
    for kind in ("consumer", "share", "streams"):
        bounded = ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"]
        if kind == "share":
            bounded += ["record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"]
        for rest in bounded:
            name, low, high = (f"group.{kind}.{bound}{rest}" for bound in ("", "min.", "max."))
            if value(high) < value(low):
                broken.append(f"{high} must be greater than or equal to {low}")
            elif value(name) < value(low):
                broken.append(f"{name} must be greater than or equal to {low}")
            elif value(name) > value(high):
                broken.append(f"{name} must be less than or equal to {high}")
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if value(heartbeat) >= value(session):
            broken.append(f"{heartbeat} must be less than {session}")
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if value(standby) > value(most):
        broken.append(f"{standby} must be less than or equal to {most}")
    return broken


def parse_connection_limits(text: str) -> dict[str, int] | None:
    """Limits by host, from ``max.connections.per.ip.overrides``; None when the text is malformed."""
    limits: dict[str, int] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        host, _, limit = (part.strip() for part in item.rpartition(":"))
        if not host or " " in host or not limit.isdecimal():
            return None
        limits[host] = int(limit)
    return limits
