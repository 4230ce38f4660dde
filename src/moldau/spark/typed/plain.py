"""Keys and values without a schema: bytes as they are, and text."""

import pyarrow as pa

from moldau.spark.typed.shapes import Decoded, SchemaError


class BytesColumn:
    type = pa.binary()

    def decode(self, column: pa.Array) -> Decoded:
        return column, {}


class TextColumn:
    type = pa.string()

    def decode(self, column: pa.Array) -> Decoded:
        """Text where it is UTF-8."""
        try:
            return column.cast(pa.string()), {}
        except pa.ArrowInvalid:
            return self._one_by_one(column)

    def _one_by_one(self, column: pa.Array) -> Decoded:
        texts: list[str | None] = []
        reasons = {}
        for row, value in enumerate(column.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                reasons[row] = f"it is not UTF-8: {error.reason} at byte {error.start}"
        return pa.array(texts, pa.string()), reasons


class BytesEncoder:
    """Bytes and text as they are."""

    def __init__(self, column: pa.DataType) -> None:
        if not (pa.types.is_binary(column) or pa.types.is_string(column) or pa.types.is_null(column)):
            raise SchemaError(f"it is {column}: cast it to STRING or BINARY, or name a format")

    def encode(self, column: pa.Array) -> pa.Array:
        return column


class TextEncoder:
    """What has one usual way to be written: text, numbers, dates."""

    def __init__(self, column: pa.DataType) -> None:
        if pa.types.is_nested(column):
            raise SchemaError(f"it is {column}, which has no text of its own: use the format json")

    def encode(self, column: pa.Array) -> pa.Array:
        return column if pa.types.is_binary(column.type) else column.cast(pa.string())
