"""The options of ``format("moldau")``: one table of them, and what users give, parsed and checked.

Invariant: pure. An unknown name is an error that suggests the nearest known one, because a misspelt option
that is ignored can lose data. Names are compared without regard to case, as Spark does. The table below is
also the documentation: ``docs/spark-options.md`` is written from it.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.transport.security import PLAINTEXT, SETTINGS, Security
from moldau.spark.read.offsets import (
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Limit,
    parse_assignment,
    parse_limit,
    parse_offsets,
)
from moldau.spark.times import parse_time

READ = "read"
WRITE = "write"
BOTH = "read, write"


class OptionError(ValueError):
    """What is wrong with the options, in one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    applies: str
    default: str
    meaning: str
    #: Whether Spark's own connector has it, and in what ours differs.
    connector: str = "same"


#: The client id, unless the user sets one.
DEFAULT_CLIENT_ID = "moldau-spark"

OPTIONS: tuple[Option, ...] = (
    Option("kafka.bootstrap.servers", BOTH, "required", "Addresses of brokers, host:port, with commas."),
    Option("subscribe", READ, "one of three", "Topics, with commas."),
    Option(
        "subscribePattern",
        READ,
        "one of three",
        "A regular expression that whole topic names match.",
        "the expression is Python's, not Java's",
    ),
    Option("assign", READ, "one of three", 'Single partitions: {"orders": [0, 1]}.'),
    Option(
        "startingOffsets",
        READ,
        "earliest (batch), latest (stream)",
        'earliest, latest, or {"orders": {"0": 23, "1": -2}}.',
    ),
    Option("endingOffsets", READ, "latest", "As startingOffsets; batch only."),
    Option("startingTimestamp", READ, "", "Milliseconds; the first record that is not older."),
    Option("endingTimestamp", READ, "", "Milliseconds; batch only."),
    Option("startingOffsetsByTimestamp", READ, "", 'Timestamps by partition: {"orders": {"0": 1000}}.'),
    Option("endingOffsetsByTimestamp", READ, "", "As above; batch only."),
    Option(
        "startingOffsetsByTimestampStrategy",
        READ,
        "error",
        "What to do where no record is as young: error, or latest.",
    ),
    Option("failOnDataLoss", READ, "true", "Whether offsets that are gone stop the query."),
    Option("minPartitions", READ, "", "At least so many Spark partitions."),
    Option("maxRecordsPerPartition", READ, "", "At most so many offsets in a Spark partition."),
    Option("maxOffsetsPerTrigger", READ, "", "At most so many offsets in a micro-batch."),
    Option("maxBytesPerTrigger", READ, "", "At most about so many bytes in a micro-batch.", "new"),
    Option("includeHeaders", BOTH, "false", "Whether there is a column headers."),
    Option(
        "kafka.group.id",
        READ,
        "",
        "The consumer group under which the query is seen.",
        "offsets are committed, so lag is visible",
    ),
    Option(
        "group.id",
        READ,
        "the query's name",
        "The same; a query without a name has none, and 'none' is none.",
        "new",
    ),
    Option(
        "kafka.isolation.level",
        READ,
        "read_committed",
        "read_committed or read_uncommitted.",
        "default read_uncommitted there",
    ),
    Option("kafka.client.id", BOTH, DEFAULT_CLIENT_ID, "What the broker calls this client in its logs."),
    Option("kafka.request.timeout.ms", BOTH, "30000", "How long one request may take."),
    Option("kafka.default.api.timeout.ms", BOTH, "60000", "How long errors that pass are tried again."),
    Option("kafka.fetch.max.bytes", READ, "4194304", "Bytes of one fetch.", "default 52428800 there"),
    Option(
        "kafka.max.partition.fetch.bytes",
        READ,
        "4194304",
        "Bytes of one partition in a fetch.",
        "default 1048576 there",
    ),
    Option(
        "pushFilters",
        READ,
        "false",
        "Whether filters on partition, offset and timestamp narrow a batch read; Spark wants its setting "
        "spark.sql.python.filterPushdown.enabled=true with it. Where topics are read by column they always "
        "do.",
        "new",
    ),
    Option("value.format", BOTH, "bytes; the subject's", "bytes, string, json, avro or protobuf.", "new"),
    Option("key.format", BOTH, "bytes", "The same of keys.", "new"),
    Option("schema.registry.url", BOTH, "", "Where the schema registry is; URLs, with commas.", "new"),
    Option("schema.registry.basic.auth.user.info", BOTH, "", "Its user:password.", "new"),
    Option(
        "schema.registry.ssl.ca.location", BOTH, "", "A file of certificates that sign the registry's.", "new"
    ),
    Option(
        "value.schema",
        BOTH,
        "the registry's",
        "The schema itself: Avro's JSON, JSON Schema or Spark's DDL for json (or infer), .proto text.",
        "new",
    ),
    Option("key.schema", BOTH, "the registry's", "The same of keys.", "new"),
    Option("value.message", BOTH, "the first one", "Which message of a .proto file values are.", "new"),
    Option("key.message", BOTH, "the first one", "The same of keys.", "new"),
    Option("value.subject", BOTH, "TOPIC-value", "The subject of values in the registry.", "new"),
    Option("key.subject", BOTH, "TOPIC-key", "The subject of keys in the registry.", "new"),
    Option("value.schema.version", BOTH, "latest", "The version of the subject to read or write by.", "new"),
    Option("key.schema.version", BOTH, "latest", "The same of keys.", "new"),
    Option("decode.errors", READ, "fail", "What becomes of bad records: fail, null or dead-letter.", "new"),
    Option("dead.letter.topic", READ, "TOPIC.dead-letter", "Where dead-letter sends bad records.", "new"),
    Option("error.column", READ, "_error", "The column with the reason, with decode.errors=null.", "new"),
    Option("asOf", READ, "", "A time (ISO 8601 or ms): the last record of each key then; batch only.", "new"),
    Option("flatten", READ, "false", "Whether the fields of values are columns of their own.", "new"),
    Option("topic", WRITE, "", "The topic of every row; else there is a column topic."),
    Option("kafka.acks", WRITE, "all", "0, 1 or all."),
    Option("kafka.compression.type", WRITE, "none", "none, gzip, snappy, lz4 or zstd."),
    Option("kafka.batch.size", WRITE, "524288", "Bytes of one record batch.", "default 16384 there"),
    Option("kafka.max.request.size", WRITE, "1048576", "The largest record that is sent."),
    Option("kafka.enable.idempotence", WRITE, "true", "Whether a retry may not write twice."),
    Option(
        "delivery",
        WRITE,
        "exactly-once (stream), at-least-once (batch)",
        "exactly-once or at-least-once.",
        "new: it is at-least-once there",
    ),
    Option("job.id", WRITE, "", "A batch job's name: a second run under it writes nothing.", "new"),
)

#: TLS and SASL, in Java's words and in librdkafka's.
OPTIONS += tuple(
    Option(f"kafka.{name}", BOTH, default, meaning, connector)
    for name, default, meaning, connector in SETTINGS
)

#: The connector's options that are not taken, and why.
REFUSED: dict[str, str] = {
    "kafkaconsumer.polltimeoutms": "fetches are not polled for here; kafka.request.timeout.ms bounds each",
    "fetchoffset.numretries": "kafka.default.api.timeout.ms bounds how long errors that pass are tried again",
    "fetchoffset.retryintervalms": "retries pause for 100 ms and longer by themselves",
    "groupidprefix": "no group is made up: name one with group.id",
    "minoffsetspertrigger": "Python sources cannot put a micro-batch off; use a longer processingTime",
    "maxtriggerdelay": "Python sources cannot put a micro-batch off; use a longer processingTime",
    "kafka.key.deserializer": "columns key and value are bytes; use key.format",
    "kafka.value.deserializer": "columns key and value are bytes; use value.format",
    "kafka.key.serializer": "columns key and value are bytes; use key.format",
    "kafka.value.serializer": "columns key and value are bytes; use value.format",
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "a query commits its offsets itself, after each batch",
    "kafka.interceptor.classes": "there are no Java classes in a Python source",
}

#: Says to our class in the JVM that a batch write appends, so that it need not ask (``ColumnarSource.java``).
APPENDS = "moldau.appends"
#: What Spark itself puts among the options of a stream, and our own class among those of a write.
_NOT_OURS_TO_CHECK = frozenset({"checkpointlocation", "queryname", "path", "outputmode", APPENDS})
_LIMITS = ("starting", "ending", "asof")
_KNOWN = {option.name.lower(): option for option in OPTIONS}
_BY_LETTERS = {"".join(c for c in name if c.isalnum()): option.name for name, option in _KNOWN.items()}


def option_name(written: str) -> str:
    """``value_format`` is value.format, ``starting_offsets`` is startingOffsets, and so on."""
    letters = "".join(c for c in written.lower() if c.isalnum())
    return _BY_LETTERS.get(letters, written.replace("_", "."))


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach the cluster."""

    bootstrap_servers: str
    client_id: str = DEFAULT_CLIENT_ID
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    security: Security = PLAINTEXT


@dataclass(frozen=True, slots=True)
class ReadOptions:
    cluster: ClusterOptions
    #: Exactly one of the three is set.
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    start: Limit = field(default_factory=Earliest)
    end: Limit = field(default_factory=Latest)
    latest_if_too_young: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    include_headers: bool = False
    #: None: the name of the query is its group, where it has one. Empty: no group.
    group_id: str | None = None
    read_committed: bool = True
    fetch_max_bytes: int = 4 * 1024 * 1024
    partition_fetch_bytes: int = 4 * 1024 * 1024
    push_filters: bool = False
    #: Read the table as it was at this time: the last record of each key.
    as_of_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    cluster: ClusterOptions
    topic: str | None = None
    acks: int = -1
    compression: str = "none"
    batch_size_bytes: int = 512 * 1024
    max_request_bytes: int = 1024 * 1024
    idempotent: bool = True
    include_headers: bool = False
    exactly_once: bool = False
    job_id: str | None = None


def check_names(given: Mapping[str, str], applies: str) -> dict[str, str]:
    """The options with their names in lower case; OptionError for one that is not known here."""
    found: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in _NOT_OURS_TO_CHECK:
            continue
        if lower in REFUSED:
            raise OptionError(f"option {name!r} is not supported: {REFUSED[lower]}")
        option = _KNOWN.get(lower)
        if option is None:
            raise OptionError(_unknown(name, applies))
        if applies not in option.applies:
            raise OptionError(f"option {option.name!r} is for {option.applies}, not for {applies}")
        found[lower] = str(value)
    return found


def _unknown(name: str, applies: str) -> str:
    names = [option.name for option in OPTIONS if applies in option.applies]
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1, 0.6)
    hint = f"did you mean {_KNOWN[near[0]].name!r}?" if near else f"there are {', '.join(names)}"
    return f"option {name!r} is not known: {hint}"


def sampled_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read as far as they matter for types: where it starts and ends does not, and means
    something else for streams.
    """
    kept = {name: each for name, each in given.items() if not name.lower().startswith(_LIMITS)}
    return read_options(kept, streaming=True)


def read_options(given: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """The options of a read, checked."""
    options = check_names(given, READ)
    if streaming:
        for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
            if name in options:
                raise OptionError(f"{_KNOWN[name].name} has no meaning for a stream: it does not end")
    try:
        topics, pattern, assignment = _sources(options)
        start = _limit(options, "starting", Latest() if streaming else Earliest())
        as_of_ms = _as_of(options, streaming)
        end = _limit(options, "ending", Latest()) if as_of_ms is None else AtTimestamp(as_of_ms + 1)
    except OptionError:
        raise
    except ValueError as error:
        raise OptionError(str(error)) from None
    if isinstance(end, Earliest):
        raise OptionError("endingOffsets cannot be earliest: nothing would be read")
    if isinstance(start, Latest) and not streaming:
        raise OptionError("startingOffsets cannot be latest in a batch query: nothing would be read")
    isolation = options.get("kafka.isolation.level", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"kafka.isolation.level is read_committed or read_uncommitted, not {isolation!r}")
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    return ReadOptions(
        _cluster(options),
        topics,
        pattern,
        assignment,
        start,
        end,
        strategy == "latest",
        _flag(options, "failondataloss", True),
        _count(options, "minpartitions"),
        _count(options, "maxrecordsperpartition"),
        _count(options, "maxoffsetspertrigger"),
        _count(options, "maxbytespertrigger"),
        _flag(options, "includeheaders", False),
        _group(options),
        isolation == "read_committed",
        _count(options, "kafka.fetch.max.bytes") or 4 * 1024 * 1024,
        _count(options, "kafka.max.partition.fetch.bytes") or 4 * 1024 * 1024,
        _flag(options, "pushfilters", False) and as_of_ms is None,
        as_of_ms,
    )


def write_options(given: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """The options of a write, checked."""
    options = check_names(given, WRITE)
    acks = options.get("kafka.acks", "all")
    if acks not in ("all", "-1", "0", "1"):
        raise OptionError(f"kafka.acks is 0, 1 or all, not {acks!r}")
    compression = options.get("kafka.compression.type", "none")
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise OptionError(f"kafka.compression.type is none, gzip, snappy, lz4 or zstd, not {compression!r}")
    job_id = options.get("job.id")
    delivery = options.get("delivery", "exactly-once" if streaming or job_id else "at-least-once")
    if delivery not in ("exactly-once", "at-least-once"):
        raise OptionError(f"delivery is exactly-once or at-least-once, not {delivery!r}")
    if delivery == "exactly-once" and not streaming and not job_id:
        raise OptionError(
            "exactly-once of a batch write needs job.id: the same id writes once, however often it runs"
        )
    if delivery == "exactly-once" and acks not in ("all", "-1"):
        raise OptionError("delivery=exactly-once needs kafka.acks=all")
    idempotent = _flag(options, "kafka.enable.idempotence", acks in ("all", "-1"))
    if idempotent and acks not in ("all", "-1"):
        raise OptionError("kafka.enable.idempotence=true needs kafka.acks=all")
    return WriteOptions(
        _cluster(options),
        options.get("topic"),
        -1 if acks == "all" else int(acks),
        compression,
        _count(options, "kafka.batch.size") or 512 * 1024,
        _count(options, "kafka.max.request.size") or 1024 * 1024,
        idempotent or delivery == "exactly-once",
        _flag(options, "includeheaders", False),
        delivery == "exactly-once",
        job_id,
    )


def _cluster(options: Mapping[str, str]) -> ClusterOptions:
    servers = options.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise OptionError(
            'option "kafka.bootstrap.servers" is missing: say where the cluster is, "host:9092"'
        )
    return ClusterOptions(
        servers,
        options.get("kafka.client.id", DEFAULT_CLIENT_ID),
        _count(options, "kafka.request.timeout.ms") or 30_000,
        _count(options, "kafka.default.api.timeout.ms") or 60_000,
        _security(options),
    )


def _security(options: Mapping[str, str]) -> Security:
    try:
        return Security.of({name.removeprefix("kafka."): value for name, value in options.items()})
    except ValueError as error:
        raise OptionError(str(error)) from None


def _sources(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    named = [name for name in ("subscribe", "subscribepattern", "assign") if name in options]
    if len(named) != 1:
        found = " and ".join(_KNOWN[name].name for name in named) or "none"
        raise OptionError(
            f"exactly one of subscribe, subscribePattern and assign says what to read; {found} is given"
        )
    text = options[named[0]]
    if named[0] == "subscribe":
        topics = tuple(part.strip() for part in text.split(",") if part.strip())
        if not topics:
            raise OptionError("subscribe names no topic")
        return topics, None, ()
    if named[0] == "subscribepattern":
        return (), text, ()
    assignment = tuple(parse_assignment(text))
    if not assignment:
        raise OptionError("assign names no partition")
    return (), None, assignment


def _limit(options: Mapping[str, str], side: str, default: Limit) -> Limit:
    """The connector's order of precedence: one timestamp, timestamps by partition, offsets."""
    if (text := options.get(f"{side}timestamp")) is not None:
        return AtTimestamp(_number(f"{side}Timestamp", text))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        return AtTimestamps(parse_offsets(f"{side}OffsetsByTimestamp", text))
    if (text := options.get(f"{side}offsets")) is not None:
        return parse_limit(f"{side}Offsets", text)
    return default


def _as_of(options: Mapping[str, str], streaming: bool) -> int | None:
    if "asof" not in options:
        return None
    if streaming:
        raise OptionError("asOf has no meaning for a stream: it is the table of one time")
    if limits := [name for name in options if name.startswith(("starting", "ending"))]:
        raise OptionError(f"asOf says what is read: leave out {_KNOWN[limits[0]].name}")
    return parse_time(options["asof"])


def _group(options: Mapping[str, str]) -> str | None:
    named = options.get("group.id") or options.get("kafka.group.id")
    return "" if named == "none" else named


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{_KNOWN[name].name} is true or false, not {options[name]!r}")
    return text == "true"


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name} is a whole number, not {text!r}") from None


def _count(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    number = _number(_KNOWN[name].name, options[name])
    if number < 1:
        raise OptionError(f"{_KNOWN[name].name} is at least 1, not {number}")
    return number


def describe(options: ReadOptions) -> str:
    """What is read, for messages."""
    if options.pattern is not None:
        return f"topics that match {options.pattern!r}"
    names: Any = options.topics or sorted({tp.topic for tp in options.assignment})
    return ", ".join(names)
