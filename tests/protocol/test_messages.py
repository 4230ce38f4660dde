"""Every message in every version, byte for byte against kio, which is generated from Kafka's own schema."""

import dataclasses
import datetime
import importlib
import io
import json
import uuid
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from moldau.protocol import codec
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.messages import load
from moldau.protocol.schema import Field, declaration

_EXAMPLES = 12
_ADVERTISED = json.loads((Path(__file__).parents[1] / "data" / "api_versions.json").read_text())["api_keys"]
#: Telemetry is advertised only by a broker that has a receiver for it.
_NOT_ADVERTISED = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
#: What brokers and the controller say to each other: Kafka's brokers do not list these to clients.
_BETWEEN_BROKERS = {
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
}
_APIS = sorted({ApiKey(row["key"]) for row in _ADVERTISED} | _NOT_ADVERTISED | _BETWEEN_BROKERS.keys())
#: kio follows Kafka's schema, where Produce begins at 3: less is only advertised, for old librdkafka.
_UNKNOWN_TO_KIO = {(ApiKey.PRODUCE, version) for version in (0, 1, 2)}
#: Kafka keeps InitProducerId 6 (two-phase commit) unstable: it is in the schema, but not advertised.
_DECLARED_BEYOND = {ApiKey.INIT_PRODUCER_ID: 6}

_MESSAGES = [pytest.param(api_key, cls, id=cls.__name__) for api_key in _APIS for cls in load(api_key)]
_DATA = [
    pytest.param(None, cls, id=cls.__name__)
    for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
]


def _versions(cls: type) -> range:
    return range(declaration(cls).versions.first, declaration(cls).versions.last + 1)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _kio_class(api_key: ApiKey | None, cls: type, version: int) -> Any:
    if api_key is None:
        module = f"{_snake(cls.__name__)}.v{version}.data"
    else:
        direction = "request" if cls.__name__.endswith("Request") else "response"
        module = f"{api_key.name.lower()}.v{version}.{direction}"
    return getattr(importlib.import_module(f"kio.schema.{module}"), cls.__name__)


def _is_our_own(f: Field) -> bool:
    """What Moldau says to itself has tags from 32000 on, which others skip."""
    return f.tag is not None and f.tag >= 32000


def _as_others_know_it(message: Any) -> Any:
    for f in declaration(type(message)).fields:
        if _is_our_own(f):
            setattr(message, f.name, getattr(type(message)(), f.name))
    return message


@cache
def _pairs(cls: type, kio_class: Any, version: int) -> list[tuple[Field, Any]]:
    """Our fields and those of kio, which correspond by position and must agree in all they declare."""
    ours = [f for f in declaration(cls).fields if version in f.present]
    ours = [f for f in ours if not _is_our_own(f)]
    pairs = list(zip(ours, dataclasses.fields(kio_class), strict=True))
    for f, theirs in pairs:
        assert f.name.removesuffix("_ms") == theirs.name.removesuffix("_ms")
        assert (f.tag if version in f.tagged else None) == theirs.metadata.get("tag")
        # None is all zeros, or -1; a list of them may be null.
        by_value = not f.is_array and theirs.metadata.get("kafka_type") in ("uuid", "datetime_i64")
        assert (version in f.nullable) == (NoneType in get_args(theirs.type) and not by_value)
        if theirs.default is not dataclasses.MISSING:
            assert _to_kio_value(getattr(cls(), f.name), f, theirs, version) == theirs.default
    return pairs


def _to_kio(message: Any, kio_class: Any, version: int) -> Any:
    """The same message as an object of kio."""
    values = {
        theirs.name: _to_kio_value(getattr(message, f.name), f, theirs, version)
        for f, theirs in _pairs(type(message), kio_class, version)
    }
    return kio_class(**values)


def _to_kio_value(value: Any, f: Field, kio_field: Any, version: int) -> Any:
    if value is None:
        return None
    kio_type = _inner_type(kio_field.type)
    if f.is_array:
        return tuple(_to_kio_item(item, f, kio_type, kio_field, version) for item in value)
    return _to_kio_item(value, f, kio_type, kio_field, version)


def _inner_type(kio_type: Any) -> Any:
    """The class behind ``X | None`` and ``tuple[X, ...]``."""
    while get_args(kio_type):
        kio_type = next(a for a in get_args(kio_type) if a is not NoneType)
    return kio_type


def _to_kio_item(value: Any, f: Field, kio_type: Any, kio_field: Any, version: int) -> Any:
    if not isinstance(f.kind, str):
        return _to_kio(value, kio_type, version)
    match kio_field.metadata["kafka_type"]:
        case "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else datetime.datetime.fromtimestamp(value // 1000, datetime.UTC)
        case _:
            return value


@pytest.mark.parametrize(("api_key", "cls"), _MESSAGES + _DATA)
def test_the_bytes_are_those_of_kio(api_key: ApiKey | None, cls: type, random_messages: Any) -> None:
    for version in _versions(cls):
        if (api_key, version) in _UNKNOWN_TO_KIO:
            continue
        kio_class = _kio_class(api_key, cls, version)
        assert kio_class.__flexible__ == (version in declaration(cls).flexible)
        write, read = entity_writer(kio_class), entity_reader(kio_class)
        for seed in range(_EXAMPLES):
            message = _as_others_know_it(random_messages(seed).message(cls, version))
            theirs = _to_kio(message, kio_class, version)
            buffer = io.BytesIO()
            write(buffer, theirs)
            assert codec.encode(message, version) == buffer.getvalue()
            assert codec.decode(cls, version, buffer.getvalue()) == message
            assert read(buffer.getvalue(), 0) == (theirs, len(buffer.getvalue()))


@pytest.mark.parametrize(("api_key", "cls"), _MESSAGES)
def test_the_versions_are_those_that_kafka_advertises(api_key: ApiKey, cls: type) -> None:
    declared = declaration(cls)
    assert declared.api_key == api_key
    if api_key in _NOT_ADVERTISED:
        assert tuple(declared.versions) == (0, 0)
        assert 0 in declared.flexible
        return
    if api_key in _BETWEEN_BROKERS:
        assert tuple(declared.versions) == _BETWEEN_BROKERS[api_key]
        assert all(version in declared.flexible for version in _versions(cls))
        return
    row = next(row for row in _ADVERTISED if row["key"] == api_key)
    assert tuple(declared.versions) == (row["min"], _DECLARED_BEYOND.get(api_key, row["max"]))
    first_flexible = row["first_flexible_request_version"]
    for version in _versions(cls):
        assert (version in declared.flexible) == (first_flexible is not None and version >= first_flexible)


def test_the_names_of_classes_are_those_of_kafka() -> None:
    for row in _ADVERTISED:
        request, response = load(ApiKey(row["key"]))
        assert (request.__name__, response.__name__) == (f"{row['name']}Request", f"{row['name']}Response")


@pytest.mark.parametrize(
    ("version", "request_bytes", "response_bytes"),
    [
        (0, "0001 00007530 00000000", "00000001 0001 74 00000001 00000007 0003 00000000000000ff"),
        (1, "0001 00007530 00000000", "00000001 0001 74 00000001 00000007 0003 00000000000000ff 00000005"),
        (
            2,
            "0001 00007530 00000000",
            "00000001 0001 74 00000001 00000007 0003 00000000000000ff 0000000000000002 00000005",
        ),
        (
            3,
            "ffff 0001 00007530 00000000",
            "00000001 0001 74 00000001 00000007 0003 00000000000000ff 0000000000000002 00000005",
        ),
    ],
)
def test_produce_of_old_librdkafka(version: int, request_bytes: str, response_bytes: str) -> None:
    from moldau.protocol.messages.produce import (
        PartitionProduceResponse,
        ProduceRequest,
        ProduceResponse,
        TopicProduceResponse,
    )

    partition = PartitionProduceResponse(index=7, error_code=3, base_offset=255, log_append_time_ms=2)
    topic = TopicProduceResponse(name="t", partition_responses=[partition])
    response = ProduceResponse(responses=[topic], throttle_time_ms=5)
    assert codec.encode(ProduceRequest(acks=1, timeout_ms=30000), version) == bytes.fromhex(request_bytes)
    assert codec.encode(response, version) == bytes.fromhex(response_bytes)
