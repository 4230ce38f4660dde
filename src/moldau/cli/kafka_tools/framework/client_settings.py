"""Settings of Kafka's Java clients as options of our own producer and consumer.

Invariant: a value that the Java client refuses is refused with its message. Settings without a meaning here
are ignored, as the Java client ignores unknown ones; those that need transactions are refused.
"""

from collections.abc import Mapping
from typing import Any

from moldau.cli.kafka_tools.framework.bootstrap import number
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.consumer import BEGINNING, END
from moldau.client.groups.assignors import ASSIGNORS
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.protocol.compression import COMPRESSION_NAMES

CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"

_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
_PRODUCER_NUMBERS = {
    "batch.size": "batch_size_bytes",
    "linger.ms": "linger_ms",
    "max.request.size": "max_request_bytes",
    "buffer.memory": "buffer_memory_bytes",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "request.timeout.ms": "request_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "max.block.ms": "max_block_ms",
}
_CONSUMER_NUMBERS = {
    "fetch.max.wait.ms": "max_wait_ms",
    "fetch.min.bytes": "min_bytes",
    "fetch.max.bytes": "max_bytes",
    "max.partition.fetch.bytes": "partition_max_bytes",
}

_PROTOCOLS = ("classic", "consumer")
#: Settings that only the other group protocol has.
_NOT_WITH = {
    "classic": ("group.remote.assignor",),
    "consumer": ("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
}
_GROUP_NUMBERS = {
    "session.timeout.ms": "session_timeout_ms",
    "max.poll.interval.ms": "rebalance_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
}


def producer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ``ProducerOptions`` that were given."""
    if properties.get("transactional.id"):
        raise ToolError(
            "org.apache.kafka.common.errors.UnsupportedVersionException",
            "transactional.id: transactions are not supported by moldau's tools yet",
        )
    options: dict[str, Any] = {}
    if "acks" in properties:
        options["acks"] = _ACKS[one_of("acks", properties["acks"], tuple(_ACKS))]
    codec = one_of("compression.type", properties.get("compression.type", "none"), tuple(COMPRESSION_NAMES))
    options["compression"] = COMPRESSION_NAMES[codec]
    level = properties.get(f"compression.{codec}.level")
    if level is not None:
        options["compression_level"] = number(properties, f"compression.{codec}.level")
    if "enable.idempotence" in properties:
        options["enable_idempotence"] = properties["enable.idempotence"].strip().lower() == "true"
        if options["enable_idempotence"] and options.get("acks", -1) != -1:
            raise ToolError(CONFIG_EXCEPTION, "Must set acks to all in order to use the idempotent producer.")
    for name, field in _PRODUCER_NUMBERS.items():
        if name in properties:
            options[field] = number(properties, name)
    return options


def consumer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ``ConsumerOptions`` that were given."""
    options: dict[str, Any] = {}
    levels = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
    level = properties.get("isolation.level", "read_uncommitted")
    options["isolation_level"] = levels[one_of("isolation.level", level, tuple(levels))]
    resets = {"earliest": BEGINNING, "latest": END, "none": None}
    reset = properties.get("auto.offset.reset", "latest")
    options["offset_reset"] = resets[one_of("auto.offset.reset", reset, tuple(resets))]
    if "check.crcs" in properties:
        options["check_crcs"] = properties["check.crcs"].strip().lower() == "true"
    if "client.rack" in properties:
        options["rack_id"] = properties["client.rack"]
    for name, field in _CONSUMER_NUMBERS.items():
        if name in properties:
            options[field] = number(properties, name)
    return options


def group_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The options of ``GroupConsumer`` that were given, beside those of every consumer."""
    protocol = one_of("group.protocol", properties.get("group.protocol", "classic").lower(), _PROTOCOLS)
    if wrong := ", ".join(name for name in _NOT_WITH[protocol] if name in properties):
        raise ToolError(CONFIG_EXCEPTION, f"{wrong} cannot be set when group.protocol={protocol.upper()}")
    membership: dict[str, Any] = {"protocol": protocol}
    for name, field in _GROUP_NUMBERS.items():
        if name in properties:
            membership[field] = number(properties, name)
    if properties.get("group.remote.assignor"):
        membership["server_assignor"] = properties["group.remote.assignor"]
    if properties.get("group.instance.id"):
        membership["group_instance_id"] = properties["group.instance.id"]
    if "partition.assignment.strategy" in properties:
        membership["assignors"] = tuple(
            _assignor(name.strip()) for name in properties["partition.assignment.strategy"].split(",")
        )
    options: dict[str, Any] = {"membership": MembershipOptions(**membership)}
    if "enable.auto.commit" in properties:
        options["auto_commit"] = properties["enable.auto.commit"].strip().lower() == "true"
    for name in ("auto.commit.interval.ms", "metadata.max.age.ms"):
        if name in properties:
            options[name.replace(".", "_")] = number(properties, name)
    return options


def _assignor(name: str) -> str:
    """``range`` for ``org.apache.kafka.clients.consumer.RangeAssignor``."""
    short = name.rsplit(".", 1)[-1].removesuffix("Assignor").lower()
    if short not in ASSIGNORS:
        raise ToolError(
            CONFIG_EXCEPTION,
            f"partition.assignment.strategy={name}: moldau's tools know {' and '.join(ASSIGNORS)}",
        )
    return short


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ToolError(
            CONFIG_EXCEPTION,
            f"Invalid value {value} for configuration {name}: String must be one of: {', '.join(allowed)}",
        )
    return value


def serialized_size(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> int:
    """The size that the Java client checks: that of a batch with this record alone."""
    size = 61 + 21 + _field_size(key) + _field_size(value) + _varint_size(len(headers))
    for name, content in headers:
        size += _field_size(name.encode("utf-8", "surrogateescape")) + _field_size(content)
    return size


def _field_size(data: bytes | None) -> int:
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(value: int) -> int:
    return max(1, ((value << 1).bit_length() + 6) // 7)
