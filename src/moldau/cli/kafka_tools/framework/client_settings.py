"""Settings of Kafka's Java clients as options of our own producer and consumer, with a tool's errors.

Invariant: a value that the Java client refuses is refused with its message; settings that need transactions
are refused.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client import java_settings
from moldau.client.groups.assignors import ASSIGNORS
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.java_settings import number, one_of

CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"

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


Options = Callable[[Mapping[str, str]], dict[str, Any]]


def _as_a_tool(read: Options) -> Options:
    @wraps(read)
    def options(properties: Mapping[str, str]) -> dict[str, Any]:
        try:
            return read(properties)
        except ValueError as error:
            raise ToolError(CONFIG_EXCEPTION, str(error)) from None

    return options


@_as_a_tool
def producer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The fields of ``ProducerOptions`` that were given."""
    if properties.get("transactional.id"):
        raise ToolError(
            "org.apache.kafka.common.errors.UnsupportedVersionException",
            "transactional.id: this tool writes without transactions",
        )
    return java_settings.producer_options(properties)


#: The fields of ``ConsumerOptions`` that were given.
consumer_options = _as_a_tool(java_settings.consumer_options)


@_as_a_tool
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
