"""Dataclasses from an Avro schema.

``moldau.serde`` makes the same schema of them again: what Python's own types cannot say stands in an
``AvroField`` beside them. Without those (``plain``) the classes depend on nothing.

Invariant: pure; see ``generated_classes``.
"""

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from moldau.cli.codegen.classes import Module, comment, identifier, literal
from moldau.schemas.avro.schema import AvroField, AvroSchema, AvroType, fits

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
_WITH_PARTS = frozenset({"union", "array", "map", "record", "error", "enum"})
#: What ``moldau.serde`` takes Python's types for, so that nothing has to be said.
_UNSAID = frozenset({"null", "boolean", "long", "double", "bytes", "string"})
_LOGICAL = {
    "timestamp-millis": ("datetime", "datetime"),
    "timestamp-micros": ("datetime", "datetime"),
    "local-timestamp-millis": ("datetime", "datetime"),
    "local-timestamp-micros": ("datetime", "datetime"),
    "date": ("datetime", "date"),
    "time-millis": ("datetime", "time"),
    "time-micros": ("datetime", "time"),
    "uuid": ("uuid", "UUID"),
    "decimal": ("decimal", "Decimal"),
}
_UNSAID_LOGICAL = frozenset({"timestamp-micros", "date", "time-micros", "uuid"})
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
        """The type in Python, with what has to be said of it in Avro, and ``more`` of that."""
        if more and type_.kind in _WITH_PARTS:
            return self._annotated(self.annotation(type_), list(more))
        kind, logical = type_.kind, type_.properties.get("logicalType")
        if kind == "union":
            parts = dict.fromkeys(self.annotation(each) for each in type_.branches)
            return " | ".join(sorted(parts, key=lambda part: part == "None"))
        if kind in ("array", "map"):
            assert type_.inner is not None
            inner = self.annotation(type_.inner)
            return f"list[{inner}]" if kind == "array" else f"dict[str, {inner}]"
        if kind in ("record", "error", "enum"):
            if type_.name not in self._names:
                self._names[type_.name] = self._module.name(identifier(type_.short_name))
                self._enum(type_) if kind == "enum" else self._record(type_)
            return self._names[type_.name]
        python = self._module.use(*_LOGICAL[logical]) if logical in _LOGICAL else _SCALARS[kind]
        said = list(more)
        unsaid = kind != "fixed" and (logical in _UNSAID_LOGICAL if logical else kind in _UNSAID)
        if not self._plain and not unsaid:
            said.insert(0, _code(self._written(type_)))
        return self._annotated(python, said)

    def _annotated(self, python: str, arguments: list[str]) -> str:
        if not arguments:
            return python
        annotated = self._module.use("typing", "Annotated")
        said = self._module.use("moldau.serde.avro_models", "AvroField")
        return f"{annotated}[{python}, {said}({', '.join(arguments)})]"

    def _written(self, type_: AvroType) -> Any:
        """The type as the schema writes it; a fixed type that was written before goes by its name."""
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
        """A default of the schema as Python's expression."""
        kind, logical = type_.kind, type_.properties.get("logicalType")
        if kind == "union":
            return self._value(next(each for each in type_.branches if fits(each, value)), value)
        if logical in _LOGICAL:
            return self._logical(type_, logical, value)
        if kind == "enum":
            return f"{self._names[type_.name]}.{identifier(value)}"
        if kind in ("bytes", "fixed"):
            return repr(value.encode("latin-1"))
        if kind == "array":
            assert type_.inner is not None
            return f"[{', '.join(self._value(type_.inner, each) for each in value)}]"
        if kind == "map":
            assert type_.inner is not None
            inner = type_.inner
            pairs = (f"{literal(key)}: {self._value(inner, each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        if kind in ("record", "error"):
            given = [
                f"{literal(identifier(each.name))}: {self._value(each.type, value[each.name])}"
                for each in type_.fields
                if each.name in value
            ]
            return f"{self._names[type_.name]}(**{{{', '.join(given)}}})"
        if kind in ("float", "double"):
            return repr(float(value))
        return literal(value) if isinstance(value, str) else repr(value)

    def _logical(self, type_: AvroType, logical: str, value: Any) -> str:
        if logical == "uuid":
            return f"UUID({literal(value)})"
        if logical == "decimal":
            number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
            return f"Decimal({literal(str(Decimal(number).scaleb(-type_.properties.get('scale', 0))))})"
        if logical == "date":
            return f"date.fromordinal({_EPOCH_DAY + value})"
        unit = "milliseconds" if logical.endswith("millis") else "microseconds"
        if logical.startswith("time-"):
            at = timedelta(**{unit: value})
            hours, rest = divmod(at.seconds, 3600)
            return f"time({hours}, {rest // 60}, {rest % 60}, {at.microseconds})"
        self._module.use("datetime", "timedelta")
        zone = (
            "" if logical.startswith("local") else f", tzinfo={self._module.use('datetime', 'timezone')}.utc"
        )
        return f"datetime(1970, 1, 1{zone}) + timedelta({unit}={value})"


def _code(value: Any) -> str:
    """JSON as a literal of Python."""
    return literal(value) if isinstance(value, str) else repr(json.loads(json.dumps(value)))
