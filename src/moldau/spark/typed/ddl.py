"""Spark's way to write down types, ``id BIGINT, tags ARRAY<STRING>``, to Arrow types, without a Spark.

Pure. What cannot be read is a ``SchemaError`` that says where.
"""

import re

import pyarrow as pa

from moldau.spark.typed.shapes import SchemaError

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[A-Za-z0-9_.\-$]+|[<>():,])")
_DEFAULT_DECIMAL = (10, 0)
_A_TYPE = "a type such as BIGINT, STRING or ARRAY<INT>"


def parse_ddl(text: str) -> pa.DataType:
    """The type: a list of fields is a struct, and a lone type is itself."""
    parser = _Parser(text)
    first = parser.peek().lower()
    follows = parser.peek(1)
    if follows in ("", "<", "(") and (first in _SIMPLE or first in ("array", "map", "struct", "decimal")):
        found = parser.type()
    else:
        found = parser.fields("")
    if parser.peek():
        raise parser.refused("the end")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise SchemaError(
                    f"{stripped[position : position + 20].strip()!r} cannot be read in the types {text!r}"
                )
            self._tokens.append(match.group(1))
            position = match.end()
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else ""

    def refused(self, expected: str) -> SchemaError:
        found = repr(self.peek()) if self.peek() else "the end"
        return SchemaError(f"{found} stands where {expected} should be, in the types {self._text!r}")

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise self.refused(repr(wanted))
        self._at += 1

    def fields(self, end: str) -> pa.DataType:
        """Fields with commas between them, up to ``end``."""
        found: list[pa.Field] = []
        while self.peek() != end:
            if found:
                self._take(",")
            if not self.peek() or self.peek() in "<>():,":
                raise self.refused("a name")
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self.peek() == ":":
                self._next()
            found.append(pa.field(name, self.type()))
            self._rest()
        if not found:
            raise self.refused("a field")
        return pa.struct(found)

    def _rest(self) -> None:
        """NOT NULL and a comment, which change nothing of how values are read."""
        if self.peek().lower() == "not" and self.peek(1).lower() == "null":
            self._at += 2
        if self.peek().lower() == "comment":
            self._at += 2

    def type(self) -> pa.DataType:
        if not self.peek():
            raise self.refused(_A_TYPE)
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name in ("varchar", "char"):
            self._numbers()
            return pa.string()
        if name == "array":
            self._take("<")
            items = self.type()
            self._take(">")
            return pa.list_(items)
        if name == "map":
            self._take("<")
            keys = self.type()
            self._take(",")
            items = self.type()
            self._take(">")
            return pa.map_(keys, items)
        if name == "struct":
            self._take("<")
            found = self.fields(">")
            self._take(">")
            return found
        self._at -= 1
        raise self.refused(_A_TYPE)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        self._take("(")
        while self.peek() != ")":
            if found:
                self._take(",")
            if not self.peek().isdecimal():
                raise self.refused("a number")
            found.append(int(self._next()))
        self._take(")")
        return found

    def _decimal(self) -> pa.DataType:
        numbers = self._numbers() if self.peek() == "(" else list(_DEFAULT_DECIMAL)
        precision, scale = (*numbers, 0)[:2] if numbers else _DEFAULT_DECIMAL
        if not 1 <= precision <= 38 or scale > precision:
            raise SchemaError(f"there is no DECIMAL({precision},{scale}): it has 1 to 38 digits")
        return pa.decimal128(precision, scale)
