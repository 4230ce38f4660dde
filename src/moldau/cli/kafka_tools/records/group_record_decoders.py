"""Records of ``__consumer_offsets`` as JSON, as Kafka's own dump tool prints them.

Pure. Knows the records that ``coordinators.groups`` writes; a record that is unknown or cannot be decoded
gets a message instead of its key.
"""

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from moldau.base.names import ZERO_UUID, format_uuid
from moldau.cli.kafka_tools.records.record_decoders import json_text, version_of
from moldau.coordinators.groups import records as classic
from moldau.coordinators.groups.consumer import records as consumer
from moldau.protocol import consumer_protocol
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.records import Record
from moldau.protocol.schema import Field, declaration

_DELETED = "<DELETE>"

#: Version of the key -> the class of the key and that of the value.
_KINDS: dict[int, tuple[type, type]] = {
    classic.OLD_OFFSET_COMMIT_KEY: (classic.OffsetCommitKey, classic.OffsetCommitValue),
    classic.OFFSET_COMMIT_KEY: (classic.OffsetCommitKey, classic.OffsetCommitValue),
    classic.GROUP_METADATA_KEY: (classic.GroupMetadataKey, classic.GroupMetadataValue),
    consumer.METADATA_KEY: (consumer.GroupKey, consumer.ConsumerGroupMetadataValue),
    consumer.MEMBER_METADATA_KEY: (consumer.MemberKey, consumer.MemberMetadataValue),
    consumer.TARGET_ASSIGNMENT_METADATA_KEY: (consumer.GroupKey, consumer.TargetAssignmentMetadataValue),
    consumer.TARGET_ASSIGNMENT_MEMBER_KEY: (consumer.MemberKey, consumer.TargetAssignmentValue),
    consumer.CURRENT_ASSIGNMENT_KEY: (consumer.MemberKey, consumer.CurrentAssignmentValue),
    consumer.REGULAR_EXPRESSION_KEY: (consumer.RegularExpressionKey, consumer.RegularExpressionValue),
}


def group_records(record: Record) -> tuple[str, str | None]:
    """A record of ``__consumer_offsets``."""
    try:
        kind = version_of(record.key)
        if kind not in _KINDS:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key_class, value_class = _KINDS[kind]
        key = classic.read_key(key_class, record.key or b"")
        shown = json_text({"type": str(kind), "data": _object(key, 0)})
        return shown, _DELETED if record.value is None else _value(value_class, record)
    except (MalformedMessage, ValueError, struct.error) as error:
        return f"Could not read record at offset {record.offset} due to: {error}", None


def _value(cls: type, record: Record) -> str:
    assert record.value is not None
    version = version_of(record.value)
    data = _object(classic.read_value(cls, record.value), version)
    if cls is consumer.MemberMetadataValue:
        # Its last field is a nullable structure, which only the coordinator's own reader supports.
        member = classic.decode(record.key or b"", record.value)
        data["classicMemberMetadata"] = None if member.classic is None else _classic_member(member.classic)
    elif cls is classic.GroupMetadataValue:
        _open_members(data)
    return json_text({"version": str(version), "data": data})


def _classic_member(member: Any) -> dict[str, Any]:
    protocols = [
        {"name": name, "metadata": b64encode(metadata).decode()} for name, metadata in member.protocols
    ]
    return {"sessionTimeoutMs": member.session_timeout_ms, "supportedProtocols": protocols}


def _open_members(data: dict[str, Any]) -> None:
    """Decodes subscriptions and assignments of consumers; those of other protocols stay bytes."""
    if data["protocolType"] != "consumer":
        return
    for member in data["members"]:
        for name, cls in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            member[name] = _opened(cls, member[name])


def _opened(cls: Any, encoded: str) -> Any:
    buffer = b64decode(encoded)
    try:
        return _object(consumer_protocol.read(cls, buffer), version_of(buffer))
    except (MalformedMessage, ValueError):
        return encoded


# Any structure ------------------------------------------------------------------------------------------


def _object(message: Any, version: int) -> dict[str, Any]:
    """The fields of a structure in its version; tagged ones only if they differ from their default."""
    shown: dict[str, Any] = {}
    for field in declaration(type(message)).fields:
        if version not in field.present:
            continue
        value = getattr(message, field.name)
        if version in field.tagged and value in (field.default, ZERO_UUID, []):
            continue
        shown[_camel(field.name)] = _json(field, value, version)
    return shown


def _json(field: Field, value: Any, version: int) -> Any:
    one: Callable[[Any], Any] = lambda each: each  # noqa: E731
    if not isinstance(field.kind, str):
        one = lambda each: _object(each, version)  # noqa: E731
    elif field.kind == "uuid":
        one = format_uuid
    elif field.kind == "bytes":
        one = lambda each: b64encode(each).decode()  # noqa: E731
    if value is None:
        return None
    return [one(each) for each in value] if field.is_array else one(value)


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)
