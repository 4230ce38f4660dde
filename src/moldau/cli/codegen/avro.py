"""Dataclasses from an Avro schema.

``moldau.serde`` derives the same schema from them: what Python's own types cannot express is in an
``AvroField`` annotation. With ``plain`` there are no annotations, and the classes do not import Moldau.

Pure.
"""

import json
from datetime import date
from typing import Any

from moldau.cli.codegen.classes import Module, comment, identifier, literal
from moldau.schemas.avro.defaults import fits
from moldau.schemas.avro.logical import LogicalType
from moldau.schemas.avro.types import AvroField, AvroSchema, AvroType

_SCALARS = {
    "null": "None",
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "str",
}
_WITH_PARTS = frozenset({"union", "array", "map", "record", "enum"})
#: The types that ``moldau.serde`` derives from Python's types, so that no annotation is needed.
_DERIVED = frozenset({"null", "boolean", "long", "double", "bytes", "string"})
_DERIVED_LOGICAL = frozenset({"timestamp-micros", "date", "time-micros", "uuid"})
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def write_avro(module: Module, schema: AvroSchema, plain: bool) -> None:
    """Adds the classes of a schema; a schema that is no record gets a class for each record inside."""
    writer = _Writer(module, plain)
    writer.annotation(schema.root)


class _Writer:
    def __init__(self, module: Module, plain: bool) -> None:
        self._module = module
        self._plain = plain
        self._names: dict[str, str] = {}
        self._fixed: set[str] = set()

    def annotation(self, type_: AvroType, *more: str) -> str:
        """The type in Python, annotated with the Avro type where needed, and with ``more`` arguments."""
        if more and type_.kind in _WITH_PARTS:
            return self._annotated(self.annotation(type_), list(more))
        kind, logical = type_.kind, type_.logical
        if kind == "union":
            parts = dict.fromkeys(self.annotation(each) for each in type_.branches)
            return " | ".join(sorted(parts, key=lambda part: part == "None"))
        if kind in ("array", "map"):
            inner = self.annotation(type_.item)
            return f"list[{inner}]" if kind == "array" else f"dict[str, {inner}]"
        if kind in ("record", "enum"):
            if type_.name not in self._names:
                self._names[type_.name] = self._module.name(identifier(type_.short_name))
                self._enum(type_) if kind == "enum" else self._record(type_)
            return self._names[type_.name]
        python = self._module.use(*logical.python) if logical is not None else _SCALARS[kind]
        arguments = list(more)
        derived = kind in _DERIVED if logical is None else logical.name in _DERIVED_LOGICAL
        derived = derived and ("logicalType" in type_.properties) == (logical is not None)
        if not self._plain and not derived:
            arguments.insert(0, _code(self._written(type_)))
        return self._annotated(python, arguments)

    def _annotated(self, python: str, arguments: list[str]) -> str:
        if not arguments:
            return python
        annotated = self._module.use("typing", "Annotated")
        field = self._module.use("moldau.serde.avro_models", "AvroField")
        return f"{annotated}[{python}, {field}({', '.join(arguments)})]"

    def _written(self, type_: AvroType) -> Any:
        """The type as the schema writes it; the second time a fixed type is used it is only named."""
        if type_.kind == "fixed":
            if type_.name in self._fixed:
                return type_.name
            self._fixed.add(type_.name)
            return {"type": "fixed", "name": type_.name, "size": type_.size, **type_.properties}
        return {"type": type_.kind, **type_.properties} if type_.properties else type_.kind

    def _enum(self, type_: AvroType) -> None:
        lines = [f"{identifier(symbol)} = {literal(symbol)}" for symbol in type_.symbols]
        if type_.namespace and not self._plain:
            lines.append(f"__avro_namespace__ = {literal(type_.namespace)}")
        self._module.enum(self._names[type_.name], "Enum", type_.doc, lines)

    def _record(self, type_: AvroType) -> None:
        lines = []
        if type_.namespace and not self._plain:
            lines += [f"__avro_namespace__ = {literal(type_.namespace)}", ""]
        for each in type_.fields:
            lines += self._field(each)
        self._module.dataclass(self._names[type_.name], type_.doc, lines)

    def _field(self, each: AvroField) -> list[str]:
        aliases = []
        if each.aliases and not self._plain:
            aliases.append(f"aliases=({', '.join(map(literal, each.aliases))},)")
        annotation = self.annotation(each.type, *aliases)
        lines = [comment(each.doc)] if each.doc else []
        name = identifier(each.name)
        if name != each.name:
            lines.append(comment(f"{each.name} in the schema"))
        line = f"{name}: {annotation}"
        if each.has_default:
            line += f" = {self._module.default(self._value(each.type, each.default))}"
        return [*lines, line]

    def _value(self, type_: AvroType, value: Any) -> str:
        """A default of the schema as a Python expression."""
        kind = type_.kind
        if kind == "union":
            return self._value(next(each for each in type_.branches if fits(each, value)), value)
        if type_.logical is not None:
            return self._logical(type_, type_.logical, value)
        if kind == "enum":
            return f"{self._names[type_.name]}.{identifier(value)}"
        if kind in ("bytes", "fixed"):
            return repr(value.encode("latin-1"))
        if kind == "array":
            return f"[{', '.join(self._value(type_.item, each) for each in value)}]"
        if kind == "map":
            pairs = (f"{literal(key)}: {self._value(type_.item, each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        if kind == "record":
            given = [
                f"{literal(identifier(each.name))}: {self._value(each.type, value[each.name])}"
                for each in type_.fields
                if each.name in value
            ]
            return f"{self._names[type_.name]}(**{{{', '.join(given)}}})"
        if kind in ("float", "double"):
            return repr(float(value))
        return literal(value) if isinstance(value, str) else repr(value)

    def _logical(self, type_: AvroType, logical: LogicalType, value: Any) -> str:
        if logical.meaning == "uuid":
            return f"UUID({literal(value)})"
        if logical.meaning == "decimal":
            number = logical.reader(type_.properties)(value.encode("latin-1"))
            return f"Decimal({literal(str(number))})"
        if logical.meaning == "date":
            return f"date.fromordinal({_EPOCH_DAY + value})"
        if logical.meaning == "time":
            at = logical.reader(type_.properties)(value)
            return f"time({at.hour}, {at.minute}, {at.second}, {at.microsecond})"
        self._module.use("datetime", "timedelta")
        unit = {1_000: "milliseconds", 1_000_000: "microseconds"}[logical.per_second]
        zone = (
            f", tzinfo={self._module.use('datetime', 'timezone')}.utc"
            if logical.meaning == "timestamp"
            else ""
        )
        return f"datetime(1970, 1, 1{zone}) + timedelta({unit}={value})"


def _code(value: Any) -> str:
    """JSON as a literal of Python."""
    return literal(value) if isinstance(value, str) else repr(json.loads(json.dumps(value)))
