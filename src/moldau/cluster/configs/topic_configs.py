"""The tables of the configs of topics, groups, client metrics and loggers, and checks between them.

Invariant: names, types, defaults and ranges are Kafka's; a value that Kafka refuses is refused with its
message.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moldau.base.settings import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Items,
    OneOf,
    RangeOr,
    Setting,
    SettingsTable,
    Validator,
    Value,
    at_least,
    between,
    invalid_value,
)
from moldau.protocol.errors import ErrorCode, KafkaError

MAX_LONG = 2**63 - 1

#: What a topic's records may be stored as; ``producer`` keeps what the producer chose.
COMPRESSION_TYPES = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = OneOf("CreateTime", "LogAppendTime")
CLEANUP_POLICIES = Items("compact", "delete")
GZIP_LEVELS = RangeOr(1, 9, -1)
LZ4_LEVELS = between(1, 17)
ZSTD_LEVELS = between(-131072, 22)
MIRROR_STATES = OneOf("none", "mirror", "stopped")
#: The one way of naming subjects that the broker knows, as Confluent's settings write it.
TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"

_HOUR_MS = 3_600_000
_RETENTION_SYNONYMS = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", _HOUR_MS),
)


class ThrottledReplicas(Validator):
    """``*`` for all, or a list of partition:broker."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        if value == ("*",):
            return
        for item in value:
            partition, colon, broker = item.partition(":")
            if not (colon and partition.isdecimal() and broker.isdecimal()):
                reason = (
                    f"{name} must be the literal '*' or a list of replicas in the following format: {self}"
                )
                raise invalid_value(name, value, reason)

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class ShareOffsetReset(Validator):
    """``earliest``, ``latest``, or how far back from now."""

    __slots__ = ()

    def check(self, name: str, value: Any) -> None:
        kind, colon, duration = value.partition(":")
        if value in ("earliest", "latest") or (kind == "by_duration" and colon and is_duration(duration)):
            return
        reason = (
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise invalid_value(name, value, reason)

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


def is_duration(text: str) -> bool:
    """Whether this is an ISO 8601 duration of days, hours, minutes and seconds, none of them negative."""
    text = text.upper()
    if not text.startswith("P"):
        return False
    days, has_time, time = text[1:].partition("T")
    if has_time and not time:
        return False
    found = 0
    for rest, units in ((days, "D"), (time, "HMS")):
        for unit in units:
            number, is_there, behind = rest.partition(unit)
            if is_there:
                whole, point, fraction = number.partition(".")
                if not whole.isdecimal() or (point and (unit != "S" or not (fraction + "0").isdecimal())):
                    return False
                rest = behind
                found += 1
        if rest:
            return False
    return found > 0


# fmt: off
TOPIC_SETTINGS = SettingsTable({
    "Segments and indexes": (
        Setting("segment.bytes", INT, 1073741824, "Size at which a segment is closed and the next one begun.",
                at_least(1048576), synonyms=(("log.segment.bytes", 1),)),
        Setting("segment.ms", LONG, 604800000,
                "Age at which a segment is closed even if it is not full, so that retention and compaction "
                "get at it.", at_least(1), synonyms=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))),
        Setting("segment.jitter.ms", LONG, 0,
                "Up to this much is taken off segment.ms, at random, so that not all segments roll at once.",
                at_least(0), synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS))),
        Setting("segment.index.bytes", INT, 10485760,
                "Size of a segment's offset index; a segment rolls when its index is full.", at_least(4),
                synonyms=(("log.index.size.max.bytes", 1),)),
    ),
    "Flush": (
        Setting("flush.messages", LONG, MAX_LONG,
                "Forces the log to disk after this many records; 1 after every append. The default leaves "
                "it to the operating system and to replication.", at_least(1),
                synonyms=(("log.flush.interval.messages", 1),)),
        Setting("flush.ms", LONG, MAX_LONG,
                "Forces the log to disk when records have waited for it this long.", at_least(0),
                synonyms=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))),
    ),
    "Retention": (
        Setting("retention.bytes", LONG, -1,
                "Size that a partition may grow to before its oldest segments go; -1 for no limit.",
                synonyms=(("log.retention.bytes", 1),)),
        Setting("retention.ms", LONG, 604800000,
                "Age at which a segment goes, by its newest record; -1 to keep everything.", at_least(-1),
                synonyms=_RETENTION_SYNONYMS),
    ),
    "Records": (
        Setting("max.message.bytes", INT, 1048588,
                "Largest record batch, as it is stored, that the topic takes.", at_least(0),
                synonyms=(("message.max.bytes", 1),)),
        Setting("index.interval.bytes", INT, 4096,
                "How many bytes of log lie between two entries of its index.", at_least(0),
                synonyms=(("log.index.interval.bytes", 1),)),
    ),
    "Compaction": (
        Setting("delete.retention.ms", LONG, 86400000,
                "How long a compacted topic still shows a deletion (a key with a null value) to its readers.",
                at_least(0), synonyms=(("log.cleaner.delete.retention.ms", 1),)),
        Setting("min.compaction.lag.ms", LONG, 0,
                "Time that a record stays as it is before compaction may drop it.", at_least(0),
                synonyms=(("log.cleaner.min.compaction.lag.ms", 1),)),
        Setting("max.compaction.lag.ms", LONG, MAX_LONG,
                "Time after which a record must have been compacted, however little there is to gain.",
                at_least(1), synonyms=(("log.cleaner.max.compaction.lag.ms", 1),)),
        Setting("file.delete.delay.ms", LONG, 60000,
                "Time between taking a segment out of the log and deleting its files, for readers that "
                "still use it.", at_least(0), synonyms=(("log.segment.delete.delay.ms", 1),)),
        Setting("min.cleanable.dirty.ratio", DOUBLE, 0.5,
                "Share of the log that must be uncompacted before a compaction is worth its work.",
                between(0, 1), synonyms=(("log.cleaner.min.cleanable.ratio", 1),)),
        Setting("cleanup.policy", LIST, ("delete",),
                "delete drops old segments, compact keeps the last value of each key; both may be set, or "
                "neither.", CLEANUP_POLICIES, synonyms=(("log.cleanup.policy", 1),)),
    ),
    "Replication": (
        Setting("unclean.leader.election.enable", BOOLEAN, False,
                "Lets a replica that is behind become leader when no other is left: available again, "
                "records lost.", synonyms=(("unclean.leader.election.enable", 1),)),
        Setting("min.insync.replicas", INT, 1,
                "Replicas that must be in sync for a produce with acks=all to be taken.", at_least(1),
                synonyms=(("min.insync.replicas", 1),)),
    ),
    "Compression and files": (
        Setting("compression.type", STRING, "producer",
                "How batches are stored: recompressed to this codec, or as the producer sent them.",
                COMPRESSION_TYPES, synonyms=(("compression.type", 1),)),
        Setting("compression.gzip.level", INT, -1,
                "Effort of gzip when the broker recompresses; -1 for its default.", GZIP_LEVELS,
                synonyms=(("compression.gzip.level", 1),)),
        Setting("compression.lz4.level", INT, 9, "Effort of lz4 when the broker recompresses.", LZ4_LEVELS,
                synonyms=(("compression.lz4.level", 1),)),
        Setting("compression.zstd.level", INT, 3, "Effort of zstd when the broker recompresses.", ZSTD_LEVELS,
                synonyms=(("compression.zstd.level", 1),)),
        Setting("preallocate", BOOLEAN, False, "Kept and shown; a segment grows as it is written.",
                synonyms=(("log.preallocate", 1),)),
    ),
    "Timestamps": (
        Setting("message.timestamp.type", STRING, "CreateTime",
                "Whose clock a record's timestamp shows: the producer's or, as it is appended, the broker's.",
                TIMESTAMP_TYPES, synonyms=(("log.message.timestamp.type", 1),)),
        Setting("message.timestamp.before.max.ms", LONG, MAX_LONG,
                "How far behind the broker's clock a producer's timestamp may be.", at_least(0),
                synonyms=(("log.message.timestamp.before.max.ms", 1),)),
        Setting("message.timestamp.after.max.ms", LONG, 3600000,
                "How far ahead of the broker's clock a producer's timestamp may be.", at_least(0),
                synonyms=(("log.message.timestamp.after.max.ms", 1),)),
    ),
    "Throttling": (
        Setting("leader.replication.throttled.replicas", LIST, (),
                "Replicas whose leaders send at no more than leader.replication.throttled.rate.",
                ThrottledReplicas()),
        Setting("follower.replication.throttled.replicas", LIST, (),
                "Replicas that copy at no more than follower.replication.throttled.rate.",
                ThrottledReplicas()),
    ),
    "Tiered storage": (
        Setting("remote.storage.enable", BOOLEAN, False,
                "Moves closed segments to remote storage. Refused where the broker has none."),
        Setting("local.retention.ms", LONG, -2,
                "Age at which a segment that is also in remote storage goes from the local disk; -2 for "
                "retention.ms.", at_least(-2), synonyms=(("log.local.retention.ms", 1),)),
        Setting("local.retention.bytes", LONG, -2,
                "Size of what stays on the local disk of a log in remote storage; -2 for retention.bytes.",
                at_least(-2), synonyms=(("log.local.retention.bytes", 1),)),
        Setting("remote.log.copy.disable", BOOLEAN, False,
                "Stops copying to remote storage; what is there stays."),
        Setting("remote.log.delete.on.disable", BOOLEAN, False,
                "Deletes what is in remote storage when it is switched off for the topic."),
    ),
    "Schemas": (
        Setting("confluent.value.schema.validation", BOOLEAN, False,
                "Refuses records whose value does not begin with a schema id that the registry has under the "
                "topic's subject; a null value is always fine.", internal=True),
        Setting("confluent.key.schema.validation", BOOLEAN, False, "The same for keys.", internal=True),
        Setting("confluent.value.subject.name.strategy", STRING, TOPIC_NAME_STRATEGY,
                "How the subject of values is named: the topic and -value.", OneOf(TOPIC_NAME_STRATEGY),
                internal=True),
        Setting("confluent.key.subject.name.strategy", STRING, TOPIC_NAME_STRATEGY,
                "How the subject of keys is named: the topic and -key.", OneOf(TOPIC_NAME_STRATEGY),
                internal=True),
    ),
    "Mirroring": (
        Setting("moldau.mirror.state", STRING, "none",
                "mirror: the topic is a copy that `moldau mirror` keeps, with the offsets of its source, and "
                "takes no records from producers. stopped: nor from the mirror, while it is promoted.",
                MIRROR_STATES, internal=True),
        Setting("moldau.mirror.source", STRING, "",
                "What a mirrored topic is a copy of: the cluster's alias and id, and the topic's id there.",
                internal=True),
    ),
    "For tests": (
        Setting("internal.segment.bytes", INT, None,
                "A segment.bytes without a lower bound, so that a test rolls segments after a few records.",
                internal=True),
    ),
})


def _group_setting(name: str, default: int, doc: str, minimum: int) -> Setting:
    return Setting(name, INT, default, doc, at_least(minimum), synonyms=((f"group.{name}", 1),))


GROUP_SETTINGS = SettingsTable({
    "Consumer groups": (
        _group_setting("consumer.session.timeout.ms", 45000,
                       "Silence after which a member of the group is taken for gone.", 1),
        _group_setting("consumer.heartbeat.interval.ms", 5000,
                       "How often a member of the group says it is there.", 1),
        _group_setting("consumer.assignment.interval.ms", 1000, "Shortest time between two assignments.", 0),
    ),
    "Share groups": (
        _group_setting("share.session.timeout.ms", 45000, "Silence after which a member is taken for gone.",
                       1),
        _group_setting("share.heartbeat.interval.ms", 5000, "How often a member says it is there.", 1),
        _group_setting("share.record.lock.duration.ms", 30000,
                       "Time that a consumer has for a record before another one gets it.", 1000),
        _group_setting("share.delivery.count.limit", 5,
                       "Attempts at delivering a record before it is given up.", 2),
        _group_setting("share.partition.max.record.locks", 2000,
                       "Records of a partition that may be out at once.", 100),
        Setting("share.auto.offset.reset", STRING, "latest",
                "Where a share group starts that has no state yet.", ShareOffsetReset()),
        Setting("share.isolation.level", STRING, "read_uncommitted",
                "Whether records of open transactions are shown.",
                OneOf("read_committed", "read_uncommitted")),
        Setting("share.renew.acknowledge.enable", BOOLEAN, True,
                "Lets a consumer ask for more time for a record."),
        _group_setting("share.assignment.interval.ms", 1000, "Shortest time between two assignments.", 0),
    ),
    "Streams groups": (
        _group_setting("streams.session.timeout.ms", 45000, "Silence after which a member is taken for gone.",
                       1),
        _group_setting("streams.heartbeat.interval.ms", 5000, "How often a member says it is there.", 1),
        _group_setting("streams.num.standby.replicas", 0, "Warm copies of each task's state.", 0),
        _group_setting("streams.initial.rebalance.delay.ms", 3000,
                       "Time that a new group waits for more members before its first assignment.", 0),
        _group_setting("streams.assignment.interval.ms", 1000, "Shortest time between two assignments.", 0),
    ),
})

CLIENT_METRICS_SETTINGS = SettingsTable({
    "Client metrics": (
        Setting("metrics", LIST, (), "Prefixes of the metrics that clients are asked for; * for all.",
                Items()),
        Setting("interval.ms", INT, 300000, "How often clients send them, from 100 ms to an hour."),
        Setting("match", LIST, (),
                "Which clients are asked: name=regular expression, for the names of a client.", Items()),
    ),
})
# fmt: on

_MATCHED_CLIENT_NAMES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def check_topic_values(values: Mapping[str, Any]) -> None:
    """KafkaError when the values of one topic contradict each other."""
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        message = (
            f"conflict topic config setting min.compaction.lag.ms ({values['min.compaction.lag.ms']}) > "
            f"max.compaction.lag.ms ({values['max.compaction.lag.ms']})"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if values["remote.storage.enable"]:
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def check_group_values(values: Mapping[str, Any], broker_value: Callable[[str], Any]) -> None:
    """KafkaError when a group's values are outside of the broker's bounds for its type."""
    for name, value in values.items():
        kind, _, rest = name.partition(".")
        low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if name == "streams.num.standby.replicas":
            low, high = "", "group.streams.max.standby.replicas"
        smallest, largest = broker_value(low), broker_value(high)
        if smallest is not None and value < smallest:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {low}")
        if largest is not None and value > largest:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {high}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms = values.get(session, broker_value(f"group.{session}"))
        if session_ms <= values.get(heartbeat, broker_value(f"group.{heartbeat}")):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def check_client_metrics_values(values: Mapping[str, Value]) -> None:
    interval_ms = values.get("interval.ms")
    if isinstance(interval_ms, int) and not 100 <= interval_ms <= _HOUR_MS:
        message = (
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    patterns = values.get("match")
    if isinstance(patterns, tuple) and patterns:
        parse_client_match(patterns)


def parse_client_match(patterns: tuple[str, ...]) -> dict[str, str]:
    """The regular expressions of a ``match`` config, by the client property they are for."""
    import re  # client metrics are rare

    found: dict[str, str] = {}
    for pattern in patterns:
        name, _, expression = (part.strip() for part in pattern.partition("="))
        try:
            if name not in _MATCHED_CLIENT_NAMES or not expression or "=" in expression:
                raise ValueError(pattern)
            re.compile(expression)
        except (ValueError, re.error):
            message = f"Illegal client matching pattern: {pattern}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None
        found[name] = expression
    return found


# -------------------------------------------------------------------------------------------------- loggers

#: Kafka's names of log levels with the numbers that Python's loggers know.
LOG_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}

#: Our loggers, one for each package; ``root`` is Python's root logger.
BROKER_LOGGERS = (
    "root",
    "moldau",
    "moldau.broker",
    "moldau.cluster",
    "moldau.coordinators",
    "moldau.replication",
    "moldau.request",
    "moldau.security",
    "moldau.storage",
)


def log_level_name(level: int) -> str:
    """Kafka's name for a level of Python's: the nearest one that shows at least as much."""
    return max(
        (name for name in LOG_LEVELS if LOG_LEVELS[name] <= level),
        key=LOG_LEVELS.__getitem__,
        default="TRACE",
    )
