"""Which table a record goes to, and which of its parts go to which columns.

Either settings such as ``topic.orders.shop.orders_by_id.mapping = id=key, total=value.total`` say so for a
topic, as in DataStax's connector, several times if the topic goes to several tables. Or ``keyspace`` and
``table.name.format`` name the table; then the key gives the primary key, and each field of the value is a
column.

Invariant: pure; what is no row is a DataException, and no error tells a value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.data.schema import Schema, Struct
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SinkRecord

_SETTING = re.compile(
    r"topic\.(?P<topic>[A-Za-z0-9._-]+)\.(?P<keyspace>\w+|\"[^\"]+\")\.(?P<table>\w+|\"[^\"]+\")"
    r"\.(?P<what>mapping|deletesEnabled|nullToUnset|ttl)"
)
_PAIR = re.compile(r"\s*(?P<column>\w+|\"[^\"]+\")\s*=\s*(?P<part>(?:key|value|header)(?:\.[^,\s]+)?)\s*")
Part = tuple[str, ...]
#: Twenty years: the most that Cassandra takes.
MAX_TTL_SECONDS = 630_720_000
#: A time to live that the table says.
TTL_OF_TABLE = -1


@dataclass(frozen=True, slots=True)
class Target:
    """A table, and how records become its rows."""

    keyspace: str
    table: str
    #: Columns with the parts of a record that they get; None: the key's and the value's fields by name.
    columns: Mapping[str, Part] | None = None
    #: Names of the key's parts where there is no mapping.
    key_fields: tuple[str, ...] = ()
    deletes: bool = True
    null_to_unset: bool = True
    ttl_seconds: int = TTL_OF_TABLE


@dataclass(frozen=True, slots=True)
class Row:
    """Columns with their schemas and values; ``keys`` are those that came from the record's key."""

    columns: Mapping[str, tuple[Schema | None, object]]
    keys: tuple[str, ...]
    deleted: bool


@dataclass(slots=True)
class Targets:
    """Where the records of each topic go."""

    by_topic: dict[str, list[Target]]
    keyspace: str = ""
    table_format: str = "${topic}"
    key_fields: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str], settings: Mapping[str, Any]) -> "Targets":
        defaults = {
            "deletes": settings["deletesEnabled"],
            "null_to_unset": settings["nullToUnset"],
            "ttl_seconds": settings["ttl"],
        }
        by_topic: dict[str, list[Target]] = {}
        for (topic, keyspace, table), options in _mapped(given).items():
            if "mapping" not in options:
                raise ConfigException(f"topic.{topic}.{keyspace}.{table}.mapping is missing")
            columns = parse_mapping(options["mapping"])
            own = {**defaults, **_options(options)}
            by_topic.setdefault(topic, []).append(Target(keyspace, table, columns, **own))
        key_fields = tuple(settings["pk.fields"])
        return cls(by_topic, settings["keyspace"], settings["table.name.format"], key_fields, defaults)

    def for_topic(self, topic: str) -> list[Target]:
        found = self.by_topic.get(topic)
        if found is None:
            if not self.keyspace:
                raise DataException(f"The topic {topic} has no mapping, and there is no keyspace")
            table = self.table_format.replace("${topic}", topic)
            # Topics may have dots and dashes, tables may not.
            table = re.sub(r"[^A-Za-z0-9_]", "_", table)
            made = Target(self.keyspace, table, key_fields=self.key_fields, **self.defaults)
            found = self.by_topic[topic] = [made]
        return found


def _mapped(given: Mapping[str, str]) -> dict[tuple[str, str, str], dict[str, str]]:
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for name, value in given.items():
        match = _SETTING.fullmatch(name)
        if match is not None:
            place = match["topic"], _unquoted(match["keyspace"]), _unquoted(match["table"])
            found.setdefault(place, {})[match["what"]] = value
    return found


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, what in (("deletesEnabled", "deletes"), ("nullToUnset", "null_to_unset")):
        if name in given:
            if given[name].strip().lower() not in ("true", "false"):
                raise ConfigException.of(name, given[name], "It is true or false")
            found[what] = given[name].strip().lower() == "true"
    if "ttl" in given:
        text = given["ttl"].strip()
        if not re.fullmatch(r"-1|[0-9]{1,9}", text) or int(text) > MAX_TTL_SECONDS:
            raise ConfigException.of("ttl", text, f"It is a number of seconds up to {MAX_TTL_SECONDS}, or -1")
        found["ttl_seconds"] = int(text)
    return found


def parse_mapping(text: str) -> dict[str, Part]:
    """``id=key, "Name"=value.name, trace=header.trace``."""
    found: dict[str, Part] = {}
    for pair in text.split(","):
        match = _PAIR.fullmatch(pair)
        if match is None:
            raise ConfigException.of(
                "mapping", text, "Pairs are column=key, column=value.field or column=header.name"
            )
        part = tuple(match["part"].split("."))
        column = _unquoted(match["column"])
        if column in found or part == ("header",):
            raise ConfigException.of("mapping", text, f"The column {column} is twice there, or has no header")
        found[column] = part
    return found


def _unquoted(name: str) -> str:
    """CQL's rule: names are small letters unless they are quoted."""
    return name[1:-1] if name.startswith('"') else name.lower()


def row_of(record: SinkRecord, target: Target) -> Row:
    deleted = record.value is None
    if deleted and not target.deletes:
        raise DataException("A tombstone is no row. Next: deletesEnabled=true")
    if target.columns is not None:
        mapped = {
            column: _part(record, part)
            for column, part in target.columns.items()
            if not deleted or part[0] != "value"
        }
        keys = tuple(column for column, part in target.columns.items() if part[0] == "key")
        return Row(mapped, keys, deleted)
    found = _key_columns(record, target.key_fields)
    keys = tuple(found)
    if not deleted:
        fields = _fields(record.value_schema, record.value)
        if fields is None:
            raise DataException("The value has to be a struct or a JSON object to become columns")
        found = {**fields, **found}
    return Row(found, keys, deleted)


def _key_columns(record: SinkRecord, names: tuple[str, ...]) -> dict[str, tuple[Schema | None, object]]:
    if record.key is None:
        raise DataException("The record has no key")
    fields = _fields(record.key_schema, record.key)
    if fields is None:
        if len(names) != 1:
            raise DataException("A key that is a single value needs one name in pk.fields")
        return {names[0]: (record.key_schema, record.key)}
    missing = [name for name in names if name not in fields]
    if missing:
        raise DataException(f"The key has no field {missing[0]}, which pk.fields names")
    return {name: fields[name] for name in names or fields}


def _fields(schema: Schema | None, value: object) -> dict[str, tuple[Schema | None, object]] | None:
    if isinstance(value, Struct):
        return {each.name: (each.schema, value.get(each.name)) for each in value.schema.fields}
    if isinstance(value, dict) and schema is None:
        return {str(name): (None, item) for name, item in value.items()}
    return None


def _part(record: SinkRecord, part: Part) -> tuple[Schema | None, object]:
    if part[0] == "header":
        wanted = ".".join(part[1:])
        for header in reversed(record.headers):
            if header.key == wanted:
                return header.schema, header.value
        return None, None
    key = part[0] == "key"
    schema, value = (record.key_schema, record.key) if key else (record.value_schema, record.value)
    for name in part[1:]:
        if value is None:
            return None, None
        if isinstance(value, Struct):
            known = value.schema.field(name)
            if known is None:
                raise DataException(f"The {part[0]} has no field {name}")
            schema, value = known.schema, value.get(name)
        elif isinstance(value, dict):
            schema, value = None, value.get(name)
        else:
            raise DataException(f"The {part[0]} has no fields, and the mapping asks for {name}")
    return schema, value
