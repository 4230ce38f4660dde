"""Paths to fields: a plain name in version 1, names with dots between them in version 2.

In version 2 a name with dots stands between backticks, and a backslash escapes a backtick that a dot follows.
"""

from typing import Any

from moldau.connect.config.definition import ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOfAnyCase
from moldau.connect.data.schema import Field, Schema, Struct
from moldau.connect.errors import ConfigException, IllegalArgumentException
from moldau.connect.transforms.base import require_map, require_struct

_PURPOSE = "nested field access"

SYNTAX_VERSION = ConfigKey(
    "field.syntax.version",
    ConfigType.STRING,
    "V1",
    Importance.HIGH,
    "How names of fields are written: V1 takes them as they are, V2 takes dots for a way into nested fields "
    "and backticks around names that have dots.",
    OneOfAnyCase("V1", "V2"),
)


class FieldPath:
    def __init__(self, text: str, version: str) -> None:
        self._steps = _steps(text) if version.upper() == "V2" else [text]

    def field_in(self, schema: Schema) -> Field | None:
        *way, last = self._checked()
        current = schema
        for step in way:
            field = current.field(step)
            if field is None:
                return None
            current = field.schema
        return current.field(last)

    def value_in_struct(self, struct: Struct, replace_null: bool) -> object:
        *way, last = self._checked()
        current = struct
        for step in way:
            if current.schema.field(step) is None:
                return None
            inner = current.get(step)
            if inner is None:
                return None
            current = require_struct(inner, _PURPOSE)
        return None if current.schema.field(last) is None else current.read(last, replace_null)

    def value_in_map(self, fields: dict[Any, object]) -> object:
        *way, last = self._checked()
        current = fields
        for step in way:
            inner = current.get(step)
            if inner is None:
                return None
            current = require_map(inner, _PURPOSE)
        return current.get(last)

    def _checked(self) -> list[str]:
        if not self._steps:
            raise IllegalArgumentException("fromIndex(0) > toIndex(-1)")
        return self._steps


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    position = 0
    while position < len(path):
        if path[position] == "`":
            step, position = _quoted_step(path, position)
        else:
            dot = path.find(".", position)
            end = dot if dot >= 0 else len(path)
            step, position = path[position:end], end + 1
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return steps


def _quoted_step(path: str, opening: int) -> tuple[str, int]:
    """The name that a backtick begins, and where the path goes on. Only a backtick before a dot, or at the
    end, closes it."""
    name: list[str] = []
    start = search = opening + 1
    while True:
        closing = path.find("`", search)
        at_end = closing == len(path) - 1
        escaped = closing > 0 and path[closing - 1] == "\\"
        if closing < 0 or (at_end and escaped):
            raise ConfigException(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick "
                f"at position {opening} to escape it"
            )
        search = closing + 1
        if at_end or (path[closing + 1] == "." and not escaped):
            return "".join(name) + path[start:closing], closing + 2
        if path[closing + 1] == ".":
            name.append(path[start : closing - 1] + "`")
            start = search
