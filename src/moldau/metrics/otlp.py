"""OTLP, both ways: readings as a message for a collector (its JSON form), and metrics that clients push,
decoded.

Of what clients push only numbers with a name are taken, which is all that Kafka's clients send (KIP-714).

Invariant: bytes that are no OTLP message give ``NotOtlp``, never anything else, and cost no more than their
length. Nothing of a message is collected but one number with its attributes, and decoding pauses at every
field: a few bytes may unpack to millions of fields.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from moldau.metrics.instruments import Histogram, Rates
from moldau.metrics.readings import Reading
from moldau.metrics.table import Kind

#: Numbers in one request to a collector; a broker has ten for each of its partitions.
_POINTS_MOST = 2_000
_DELTA, _CUMULATIVE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Those of Kafka's clients have some hundred.
_POINT_BYTES_MOST = 16 * 1024
_NOTHING = memoryview(b"")


# --- out ----------------------------------------------------------------------------------------------


def export_requests(
    readings: Iterable[Reading], resource: Mapping[str, str], started_ns: int, now_ns: int, now: float
) -> Iterator[dict[str, Any]]:
    """ExportMetricsServiceRequests, as JSON has them; names are those of Prometheus.

    Several, as collectors take no request of any size, and as whoever sends them has other work in between.
    """
    times = {"startTimeUnixNano": str(started_ns), "timeUnixNano": str(now_ns)}
    families: dict[str, dict[str, Any]] = {}
    points = 0
    for reading in readings:
        metric = reading.metric
        for keys, value in reading.values:
            if isinstance(value, str):
                continue
            if points == _POINTS_MOST:
                yield _request(families, resource)
                families, points = {}, 0
            points += 1
            family = families.setdefault(
                metric.prometheus,
                {"name": metric.prometheus, "description": metric.help, "unit": metric.unit},
            )
            point: dict[str, Any] = {
                "attributes": _attributes(zip(metric.labels, keys, strict=True)),
                **times,
            }
            if isinstance(value, Histogram):
                family.setdefault("summary", {"dataPoints": []})["dataPoints"].append(
                    _summary(value, point, now)
                )
            elif metric.kind is Kind.METER or metric.grows:
                total = {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True, "dataPoints": []}
                family.setdefault("sum", total)["dataPoints"].append(point | _number(value))
            else:
                family.setdefault("gauge", {"dataPoints": []})["dataPoints"].append(point | _number(value))
    if families:
        yield _request(families, resource)


def _request(families: Mapping[str, dict[str, Any]], resource: Mapping[str, str]) -> dict[str, Any]:
    scope = {"scope": {"name": "moldau"}, "metrics": list(families.values())}
    return {
        "resourceMetrics": [
            {"resource": {"attributes": _attributes(resource.items())}, "scopeMetrics": [scope]}
        ]
    }


def _attributes(pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in pairs]


def _number(value: int | float | Rates) -> dict[str, Any]:
    if isinstance(value, int):
        return {"asInt": str(value)}
    return {"asDouble": value.decayed[0] if isinstance(value, Rates) else value}


def _summary(value: Histogram, point: dict[str, Any], now: float) -> dict[str, Any]:
    snapshot = value.snapshot(now)
    quantiles = [{"quantile": each, "value": found} for each, found in snapshot.quantiles.items()]
    return point | {"count": str(snapshot.count), "sum": snapshot.total, "quantileValues": quantiles}


# --- in -----------------------------------------------------------------------------------------------


class NotOtlp(ValueError):
    """The bytes are no OTLP message of metrics."""


class Point(NamedTuple):
    """One number that a client pushed."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    #: Whether it is what was added since the last push.
    is_delta: bool
    #: Whether it only grows.
    is_total: bool


def decode_metrics(data: bytes) -> Iterator[Point | None]:
    """The numbers of a MetricsData message; None where others may have their turn."""
    view = memoryview(data)
    for resource_metrics in _inside(view, 1):
        yield None
        for scope_metrics in _inside(resource_metrics, 2):
            yield None
            for metric in _inside(scope_metrics, 2):
                yield None
                yield from _points(metric)


def _points(metric: memoryview) -> Iterator[Point | None]:
    name = ""
    for field, kind, value in _fields(metric):
        yield None
        if field == 1 and kind == _BYTES:
            name = _text(value)
        elif field in (5, 7) and kind == _BYTES:
            temporality, grows = _CUMULATIVE, False
            for inner, inner_kind, content in _fields(value):  # they come behind the points
                yield None
                if inner == 2 and inner_kind == _VARINT:
                    temporality = content
                elif inner == 3 and inner_kind == _VARINT:
                    grows = bool(content)
            is_delta, is_total = field == 7 and temporality == _DELTA, field == 7 and grows
            for point in _inside(value, 1):
                if point:
                    yield Point(name, *_data_point(point), is_delta, is_total)
                else:
                    yield None


def _data_point(point: memoryview) -> tuple[tuple[tuple[str, str], ...], float]:
    if len(point) > _POINT_BYTES_MOST:
        raise NotOtlp(f"a number has more than {_POINT_BYTES_MOST} bytes of attributes")
    number = 0.0
    attributes: list[tuple[str, str]] = []
    for field, kind, value in _fields(point):
        if field == 4 and kind == _FIXED64:
            number = struct.unpack("<d", value)[0]
        elif field == 6 and kind == _FIXED64:
            number = float(struct.unpack("<q", value)[0])
        elif field == 7 and kind == _BYTES:
            attributes.append(_attribute(value))
    return tuple(sorted(attributes)), number


def _attribute(pair: memoryview) -> tuple[str, str]:
    key, text = "", ""
    for field, kind, value in _fields(pair):
        if field == 1 and kind == _BYTES:
            key = _text(value)
        elif field == 2 and kind == _BYTES:
            for inner, inner_kind, content in _fields(value):
                if inner == 1 and inner_kind == _BYTES:
                    text = _text(content)
                elif inner == 4 and inner_kind == _FIXED64:
                    text = repr(struct.unpack("<d", content)[0])
                elif inner_kind == _VARINT:
                    text = str(content)
    return key, text


def _inside(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """The messages in one field; an empty one in place of every other field."""
    for field, kind, value in _fields(message):
        yield value if field == wanted and kind == _BYTES else _NOTHING


def _text(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise NotOtlp("a text is not UTF-8") from None


def _fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and content of each field of a protobuf message."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        field, kind = tag >> 3, tag & 7
        if not field:
            raise NotOtlp("a field has the number 0")
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield field, kind, value
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise NotOtlp(f"there is no wire type {kind}")
        if position + size > end:
            raise NotOtlp("a field is longer than its message")
        yield field, kind, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(message):
            raise NotOtlp("a number is cut off")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    raise NotOtlp("a number is too long")
