"""Converters of single values: bytes as they are, booleans, and numbers in big-endian order."""

import struct
from typing import ClassVar

from moldau.connect.converters.base import Converter
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.types import EXACT, INTEGERS, Type, java_class
from moldau.connect.errors import ClassCastException, DataException, SerializationException


class ByteArrayConverter(Converter):
    _schema: ClassVar[Schema] = Schema(Type.BYTES, optional=True)

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise DataException(
                f"ByteArrayConverter is not compatible with objects of type class {java_class(value)}"
            )
        return bytes(value)

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(self._schema, raw)


class BooleanConverter(Converter):
    _schema: ClassVar[Schema] = Schema(Type.BOOLEAN, optional=True)

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataException(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataException(
                f"BooleanConverter is not compatible with objects of type class {java_class(value)}"
            )
        return b"\1" if value else b"\0"

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        if raw is None:
            return SchemaAndValue(self._schema, None)
        if len(raw) != 1:
            problem = "Size of data received by BooleanDeserializer is not 1"
        elif raw[0] > 1:
            problem = f"Unexpected byte received by BooleanDeserializer: {raw[0]}"
        else:
            return SchemaAndValue(self._schema, raw[0] == 1)
        raise DataException("Failed to deserialize boolean: ") from SerializationException(problem)


class NumberConverter(Converter):
    """Numbers of one width."""

    type: ClassVar[Type]
    #: What messages call the type, and the class that reads it.
    word: ClassVar[str]
    reader: ClassVar[str]
    form: ClassVar[str]

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None:
            return None
        exact = EXACT[self.type]
        width = INTEGERS.get(self.type)
        plain = type(value) is int and width is not None and width.holds(value)
        if type(value) is exact or plain or (width is None and type(value) is float):
            return struct.pack(self.form, value)
        reason = ClassCastException(f"class {java_class(value)} cannot be cast to class java.lang.Number")
        raise DataException(
            f"Failed to serialize to {self.word} (was class {java_class(value)}): "
        ) from reason

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        schema = Schema(self.type, optional=True)
        if raw is None:
            return SchemaAndValue(schema, None)
        size = struct.calcsize(self.form)
        if len(raw) != size:
            reason = SerializationException(f"Size of data received by {self.reader} is not {size}")
            raise DataException(f"Failed to deserialize {self.word}: ") from reason
        return SchemaAndValue(schema, EXACT[self.type](struct.unpack(self.form, raw)[0]))


class ShortConverter(NumberConverter):
    type, word, reader, form = Type.INT16, "short", "ShortDeserializer", ">h"


class IntegerConverter(NumberConverter):
    type, word, reader, form = Type.INT32, "integer", "IntegerDeserializer", ">i"


class LongConverter(NumberConverter):
    type, word, reader, form = Type.INT64, "long", "LongDeserializer", ">q"


class FloatConverter(NumberConverter):
    type, word, reader, form = Type.FLOAT32, "float", "Deserializer", ">f"


class DoubleConverter(NumberConverter):
    type, word, reader, form = Type.FLOAT64, "double", "Deserializer", ">d"
