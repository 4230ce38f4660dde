"""Avro schemas for the compilers: parsed once, with every named type at hand.

Invariant: fastavro parses and checks; nothing here reads data. A schema that cannot be used is a
``SerdeError``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastavro.schema import parse_schema
from fastavro.types import Schema

from moldau.serde.errors import SerdeError, shown

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})


@dataclass(frozen=True)
class AvroSchema:
    """``root`` in fastavro's parsed form; a type that is only named is found in ``named``."""

    text: str
    root: Schema
    named: dict[str, Any]

    @property
    def name(self) -> str | None:
        """What record strategies call it: the full name, or the type where it has no name."""
        if isinstance(self.root, str):
            return self.root
        if isinstance(self.root, dict):
            found: str = self.root.get("name") or self.root["type"]
            return found
        return None

    @property
    def is_bytes(self) -> bool:
        """Such a value stands alone, without a length: so do Confluent's serializers."""
        return self.root == "bytes" or (
            isinstance(self.root, dict) and self.root["type"] == "bytes" and "logicalType" not in self.root
        )

    def resolved(self, schema: Any) -> Any:
        """A type by itself, where only its name is given."""
        if isinstance(schema, str) and schema not in PRIMITIVES:
            return self.named[schema]
        return schema


def parse_avro(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """``references`` are the texts of schemas that it names, those that others name first."""
    named: dict[str, Any] = {}
    try:
        for each in references:
            parse_schema(json.loads(each), named)
        root = parse_schema(json.loads(text), named)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SerdeError(f"The Avro schema cannot be used: {_said(error)}") from error
    except Exception as error:  # fastavro's own errors have no common base but this one
        if not type(error).__module__.startswith("fastavro"):
            raise
        raise SerdeError(f"The Avro schema cannot be used: {_said(error)}") from error
    if isinstance(root, dict) and set(root) <= {"type", "__fastavro_parsed_schema", "__named_schemas"}:
        root = root["type"]
    return AvroSchema(text, root, named)


def kind(schema: Any) -> str:
    """The type: a primitive's name, union, or what a definition says."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return "union"
    found: Any = schema["type"]
    if not isinstance(found, str):
        return kind(found)
    return "record" if found == "error" else found


def logical(schema: Any) -> str | None:
    """The key under which fastavro keeps what is known of a logical type."""
    if isinstance(schema, dict) and isinstance(schema.get("logicalType"), str):
        return f"{kind(schema)}-{schema['logicalType']}"
    return None


def branch_name(schema: Any) -> str:
    """How a branch of a union is called: the full name where there is one."""
    if isinstance(schema, dict) and kind(schema) in NAMED:
        name: str = schema["name"]
        return name
    return schema if isinstance(schema, str) else kind(schema)


def default_value(avro: AvroSchema, schema: Any, default: Any) -> Any:
    """A default as the schema writes it in JSON, as the value that it stands for."""
    schema = avro.resolved(schema)
    match kind(schema):
        case "union":
            return _union_default(avro, schema, default)
        case "bytes" | "fixed":
            return default.encode("latin-1") if isinstance(default, str) else default
        case "float" | "double":
            return float(default)
        case "array":
            return [default_value(avro, schema["items"], each) for each in default]
        case "map":
            return {key: default_value(avro, schema["values"], each) for key, each in default.items()}
        case "record":
            return _record_default(avro, schema, default)
    return default


def _union_default(avro: AvroSchema, schema: list[Any], default: Any) -> Any:
    """It belongs to the first branch; newer versions of Avro allow any."""
    for branch in schema:
        try:
            found = default_value(avro, branch, default)
        except (TypeError, AttributeError, KeyError, ValueError, SerdeError):
            continue
        if (found is None) == (kind(avro.resolved(branch)) == "null"):
            return found
    return default


def _record_default(avro: AvroSchema, schema: dict[str, Any], default: Any) -> dict[str, Any]:
    found = {}
    for field in schema["fields"]:
        name = field["name"]
        if name not in default and "default" not in field:
            raise SerdeError(f"The default {shown(default)} of {schema['name']} has no value for {name!r}.")
        found[name] = default_value(avro, field["type"], default.get(name, field.get("default")))
    return found


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
