"""Settings of Kafka's Java clients as options of our own producer and consumer.

Invariant: a value that the Java client refuses is a ``ValueError`` with its message. Settings without a
meaning here are ignored, as the Java client ignores unknown ones.
"""

from collections.abc import Mapping
from typing import Any

from moldau.client.admin.descriptions import READ_COMMITTED, READ_UNCOMMITTED
from moldau.client.consumer.consumer import BEGINNING, END
from moldau.protocol.compression import COMPRESSION_NAMES

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


def producer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ``ProducerOptions`` that were given."""
    options: dict[str, Any] = {}
    if "acks" in properties:
        options["acks"] = _ACKS[one_of("acks", properties["acks"], tuple(_ACKS))]
    codec = one_of("compression.type", properties.get("compression.type", "none"), tuple(COMPRESSION_NAMES))
    options["compression"] = COMPRESSION_NAMES[codec]
    if f"compression.{codec}.level" in properties:
        options["compression_level"] = number(properties, f"compression.{codec}.level")
    if "enable.idempotence" in properties:
        options["enable_idempotence"] = properties["enable.idempotence"].strip().lower() == "true"
        if options["enable_idempotence"] and options.get("acks", -1) != -1:
            raise ValueError("Must set acks to all in order to use the idempotent producer.")
    return options | _numbers(properties, _PRODUCER_NUMBERS)


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
    return options | _numbers(properties, _CONSUMER_NUMBERS)


def _numbers(properties: Mapping[str, str], fields: Mapping[str, str]) -> dict[str, int]:
    return {field: number(properties, name) for name, field in fields.items() if name in properties}


def number(properties: Mapping[str, str], name: str) -> int:
    """A setting that is a whole number."""
    try:
        return int(properties[name].strip())
    except ValueError:
        raise ValueError(
            f"Invalid value {properties[name]} for configuration {name}: Not a number of type LONG"
        ) from None


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(
            f"Invalid value {value} for configuration {name}: String must be one of: {', '.join(allowed)}"
        )
    return value
