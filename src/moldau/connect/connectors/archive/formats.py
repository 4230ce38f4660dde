"""Records as files: Parquet, Avro, JSON; and back, with keys, values, headers, times and their schemas.

Each file has one schema for keys and one for values, which it carries itself; a null needs none. Values that
have a schema become columns with types; those of JSON without one are kept as their JSON text.

Invariant: what is read back equals what was written.
"""

import datetime
import io
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from moldau.connect.connectors.libraries import library
from moldau.connect.converters.avro_schemas import avro_of
from moldau.connect.converters.avro_values import from_avro, to_avro
from moldau.connect.converters.json import JsonConverter
from moldau.connect.converters.simple_header import SimpleHeaderConverter
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct
from moldau.connect.data.types import EXACT, Instant, Type
from moldau.connect.errors import DataException
from moldau.connect.records import Header

_EXTRA = "connect-archive"
_META = "moldau.archive"
_HEADERS = SimpleHeaderConverter({}, "header")
_JSON = JsonConverter({"schemas.enable": "true"})
_PLAIN_JSON = JsonConverter({"schemas.enable": "false"})


class Kept(NamedTuple):
    """A record of an archive."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key_schema: Schema | None
    key: object
    value_schema: Schema | None
    value: object
    headers: tuple[Header, ...]


def write(kind: str, records: Sequence[Kept]) -> bytes:
    return _WRITERS[kind](records)


def read(kind: str, content: bytes) -> Iterator[Kept]:
    return _READERS[kind](content)


def kinds() -> list[str]:
    return list(_WRITERS)


# --- what all formats have ----------------------------------------------------------------------------


def _schema_node(schema: Schema | None) -> Any:
    raw = _JSON.from_connect("", schema, None) if schema is not None and schema.optional else None
    if raw is not None:
        return json.loads(raw)["schema"]
    if schema is None:
        return None
    from moldau.connect.converters.json_schemas import schema_to_json

    return schema_to_json(schema, lambda inner, value: _PLAIN_JSON_NODE(inner, value))


def _PLAIN_JSON_NODE(schema: Schema, value: object) -> Any:  # noqa: N802
    raw = _PLAIN_JSON.from_connect("", schema, value)
    return None if raw is None else json.loads(raw)


def _schema_from(node: Any) -> Schema | None:
    if node is None:
        return None
    found = _JSON.to_connect("", json.dumps({"schema": {**node, "optional": True}, "payload": None}).encode())
    schema = found.schema
    assert schema is not None
    return schema if node.get("optional") else _required(schema)


def _required(schema: Schema) -> Schema:
    return Schema(
        schema.type,
        default=schema.default,
        fields=[(each.name, each.schema) for each in schema.fields] if schema.type is Type.STRUCT else (),
        keys=schema.keys if schema.type is Type.MAP else None,
        values=schema.values if schema.type in (Type.MAP, Type.ARRAY) else None,
        **schema.basics(),
    )


def _headers_out(record: Kept) -> list[dict[str, object]]:
    return [
        {
            "key": header.key,
            "value": _HEADERS.from_connect_header("", header.key, header.schema, header.value),
        }
        for header in record.headers
    ]


def _headers_in(found: Sequence[Any] | None) -> tuple[Header, ...]:
    return tuple(
        Header.of(each["key"], _HEADERS.to_connect_header("", each["key"], each["value"]))
        for each in found or ()
    )


def _text(value: object) -> str | None:
    """Values without a schema, as JSON."""
    raw = _PLAIN_JSON.from_connect("", None, value)
    return None if raw is None else raw.decode()


def _from_text(text: str | None) -> object:
    return None if text is None else _PLAIN_JSON.to_connect("", text.encode()).value


def _metadata(records: Sequence[Kept]) -> str:
    keys, values = schemas_of(records)
    return json.dumps({"key": _schema_node(keys), "value": _schema_node(values)})


def schemas_of(records: Sequence[Kept]) -> tuple[Schema | None, Schema | None]:
    """The schemas of a file's keys and values."""
    keys = next((each.key_schema for each in records if each.key is not None), None)
    return keys, next((each.value_schema for each in records if each.value is not None), None)


def files_of(records: Sequence[Kept]) -> Iterator[list[Kept]]:
    """Runs of records with the same schemas."""
    found: list[Kept] = []
    schemas: dict[str, Schema | None] = {}
    for record in records:
        own = {
            part: schema
            for part, schema, value in (
                ("key", record.key_schema, record.key),
                ("value", record.value_schema, record.value),
            )
            if value is not None
        }
        if any(part in schemas and schemas[part] != schema for part, schema in own.items()):
            yield found
            found, schemas = [], {}
        found.append(record)
        schemas |= own
    if found:
        yield found


# --- Parquet ------------------------------------------------------------------------------------------


def _write_parquet(records: Sequence[Kept]) -> bytes:
    arrow, parquet = library("pyarrow", _EXTRA), library("pyarrow.parquet", _EXTRA)
    keys, values = schemas_of(records)
    header = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
    columns = [
        ("topic", arrow.string(), [each.topic for each in records]),
        ("partition", arrow.int32(), [each.partition for each in records]),
        ("offset", arrow.int64(), [each.offset for each in records]),
        ("timestamp", arrow.timestamp("ms", "UTC"), [each.timestamp for each in records]),
        ("key", _arrow_type(arrow, keys), [_arrow(keys, each.key) for each in records]),
        ("value", _arrow_type(arrow, values), [_arrow(values, each.value) for each in records]),
        ("headers", arrow.list_(header), [_headers_out(each) for each in records]),
    ]
    schema = arrow.schema([(name, kind) for name, kind, _ in columns], {_META: _metadata(records)})
    table = arrow.table([arrow.array(cells, kind) for _, kind, cells in columns], schema=schema)
    out = io.BytesIO()
    parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _arrow_type(arrow: Any, schema: Schema | None) -> Any:
    if schema is None:
        return arrow.string()
    if schema.name == DECIMAL:
        return arrow.decimal256(76, int((schema.parameters or {}).get("scale", "0")))
    logical = {DATE: arrow.date32(), TIME: arrow.time32("ms"), TIMESTAMP: arrow.timestamp("ms", "UTC")}
    if schema.name in logical:
        return logical[schema.name]
    match schema.type:
        case Type.STRUCT:
            fields = [(each.name, _arrow_type(arrow, each.schema)) for each in schema.fields]
            return arrow.struct(fields)
        case Type.ARRAY:
            return arrow.list_(_arrow_type(arrow, schema.values))
        case Type.MAP:
            return arrow.map_(_arrow_type(arrow, schema.keys), _arrow_type(arrow, schema.values))
    return {
        Type.INT8: arrow.int8(),
        Type.INT16: arrow.int16(),
        Type.INT32: arrow.int32(),
        Type.INT64: arrow.int64(),
        Type.FLOAT32: arrow.float32(),
        Type.FLOAT64: arrow.float64(),
        Type.BOOLEAN: arrow.bool_(),
        Type.STRING: arrow.string(),
    }.get(schema.type, arrow.binary())


def _arrow(schema: Schema | None, value: object) -> Any:
    if schema is None:
        return _text(value)
    if isinstance(value, Instant):
        when = value.datetime()
        return when.date() if schema.name == DATE else when.time() if schema.name == TIME else when
    if isinstance(value, Struct):
        return {field.name: _arrow(field.schema, item) for field, item in value.items()}
    if isinstance(value, list | tuple):
        return [_arrow(schema.values, item) for item in value]
    if isinstance(value, dict):
        return [(_arrow(schema.keys, key), _arrow(schema.values, item)) for key, item in value.items()]
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _read_parquet(content: bytes) -> Iterator[Kept]:
    file = library("pyarrow.parquet", _EXTRA).ParquetFile(io.BytesIO(content))
    found = json.loads((file.schema_arrow.metadata or {}).get(_META.encode(), b"{}"))
    keys, values = _schema_from(found.get("key")), _schema_from(found.get("value"))
    for batch in file.iter_batches(5000):
        others = batch.select([name for name in batch.schema.names if name != "timestamp"])
        # As numbers: producers choose timestamps, and Python's dates end with the year 9999.
        moments = batch.column("timestamp").cast(library("pyarrow", _EXTRA).int64())
        for row, when in zip(others.to_pylist(), moments.to_pylist(), strict=True):
            yield Kept(
                row["topic"],
                row["partition"],
                row["offset"],
                when,
                None if row["key"] is None else keys,
                _from_arrow(keys, row["key"]),
                None if row["value"] is None else values,
                _from_arrow(values, row["value"]),
                _headers_in(row["headers"]),
            )


def _from_arrow(schema: Schema | None, value: Any) -> object:
    if value is None:
        return None
    if schema is None:
        return _from_text(value)
    if isinstance(value, datetime.date | datetime.time):
        return Instant.of(value)
    if isinstance(value, Decimal):
        return value
    match schema.type:
        case Type.STRUCT:
            made = Struct(schema)
            for field in schema.fields:
                if value[field.name] is not None:
                    made.put(field.name, _from_arrow(field.schema, value[field.name]))
            return made
        case Type.ARRAY:
            return [_from_arrow(schema.values, item) for item in value]
        case Type.MAP:
            return {_from_arrow(schema.keys, key): _from_arrow(schema.values, item) for key, item in value}
    exact = EXACT.get(schema.type)
    return value if exact is None else exact(value)


# --- Avro ---------------------------------------------------------------------------------------------


def _write_avro(records: Sequence[Kept]) -> bytes:
    fastavro = library("fastavro", _EXTRA)
    keys, values = schemas_of(records)
    bytes_or_null = ["null", "bytes"]
    header = {"type": "record", "name": "ArchiveHeader", "fields": [
        {"name": "key", "type": "string"}, {"name": "value", "type": bytes_or_null}]}  # fmt: skip
    schema = {
        "type": "record",
        "name": "ArchiveRecord",
        "fields": [
            {"name": "topic", "type": "string"},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": ["null", "long"]},
            {"name": "key", "type": _avro_type(keys)},
            {"name": "value", "type": _avro_type(values)},
            {"name": "headers", "type": {"type": "array", "items": header}},
        ],
    }
    rows = (
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "timestamp": each.timestamp,
            "key": _avro(keys, each.key),
            "value": _avro(values, each.value),
            "headers": _headers_out(each),
        }
        for each in records
    )
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec="deflate", metadata={_META: _metadata(records)})
    return out.getvalue()


def _avro_type(schema: Schema | None) -> Any:
    if schema is None:
        return ["null", "string"]
    found = _stripped(avro_of(schema))
    return found if isinstance(found, list) else ["null", found]


def _stripped(node: Any) -> Any:
    """Without logical types: values are written as what carries them, and the file has Connect's schema."""
    if isinstance(node, list):
        return [_stripped(each) for each in node]
    if isinstance(node, dict):
        return {
            name: _stripped(each) for name, each in node.items() if name not in ("logicalType", "default")
        }
    return node


def _avro(schema: Schema | None, value: object) -> Any:
    if value is None:
        return None
    return _text(value) if schema is None else to_avro(schema, value)


def _read_avro(content: bytes) -> Iterator[Kept]:
    reader = library("fastavro", _EXTRA).reader(io.BytesIO(content))
    found = json.loads(reader.metadata.get(_META, "{}"))
    keys, values = _schema_from(found.get("key")), _schema_from(found.get("value"))
    for row in reader:
        yield Kept(
            row["topic"],
            row["partition"],
            row["offset"],
            row["timestamp"],
            None if row["key"] is None else keys,
            _from_text(row["key"]) if keys is None else from_avro(keys, row["key"]),
            None if row["value"] is None else values,
            _from_text(row["value"]) if values is None else from_avro(values, row["value"]),
            _headers_in(row["headers"]),
        )


# --- JSON ---------------------------------------------------------------------------------------------


def _write_json(records: Sequence[Kept]) -> bytes:
    lines = []
    for each in records:
        node = {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "timestamp": each.timestamp,
            "key": _json_node(each.key_schema, each.key),
            "value": _json_node(each.value_schema, each.value),
            "headers": [{"key": item["key"], "value": _latin(item["value"])} for item in _headers_out(each)],
        }
        lines.append(json.dumps(node, ensure_ascii=False, separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


def _json_node(schema: Schema | None, value: object) -> Any:
    """With its schema beside it, where it has one, as Connect's JSON converter writes it."""
    if schema is None:
        found = _text(value)
        return {"schema": None, "payload": None if found is None else json.loads(found)}
    raw = _JSON.from_connect("", schema, value)
    return {"schema": _schema_node(schema), "payload": None} if raw is None else json.loads(raw)


def _latin(value: Any) -> str | None:
    return None if value is None else value.decode("latin-1")


def _read_json(content: bytes) -> Iterator[Kept]:
    for number, line in enumerate(content.splitlines(), 1):
        try:
            node = json.loads(line)
            headers = [
                {**each, "value": None if each["value"] is None else each["value"].encode("latin-1")}
                for each in node["headers"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise DataException(f"Line {number} of a file of the archive is no record of it") from error
        key, value = (_from_node(node[part]) for part in ("key", "value"))
        place = (node["topic"], node["partition"], node["offset"], node["timestamp"])
        yield Kept(*place, *key, *value, _headers_in(headers))


def _from_node(node: Any) -> tuple[Schema | None, object]:
    if node["schema"] is None:
        return None, _from_text(json.dumps(node["payload"])) if node["payload"] is not None else None
    if node["payload"] is None:
        return None, None
    found = _JSON.to_connect("", json.dumps(node).encode())
    return found.schema, found.value


_WRITERS: dict[str, Callable[[Sequence[Kept]], bytes]] = {
    "parquet": _write_parquet,
    "avro": _write_avro,
    "json": _write_json,
}
_READERS: dict[str, Callable[[bytes], Iterator[Kept]]] = {
    "parquet": _read_parquet,
    "avro": _read_avro,
    "json": _read_json,
}
