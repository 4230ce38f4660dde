"""Every converter by the names that configurations use."""

from collections.abc import Mapping

from moldau.connect.compatibility import Compatibility
from moldau.connect.converters.avro import AvroConverter
from moldau.connect.converters.base import Converter
from moldau.connect.converters.json import JsonConverter
from moldau.connect.converters.json_schema import JsonSchemaConverter
from moldau.connect.converters.primitives import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from moldau.connect.converters.protobuf_loading import ProtobufLoading
from moldau.connect.converters.simple_header import SimpleHeaderConverter
from moldau.connect.converters.strings import StringConverter
from moldau.connect.errors import ConnectException

_PACKAGE = "org.apache.kafka.connect"

CONVERTERS: dict[str, type[Converter]] = {
    f"{_PACKAGE}.converters.{kind.__name__}": kind
    for kind in (
        BooleanConverter,
        ByteArrayConverter,
        DoubleConverter,
        FloatConverter,
        IntegerConverter,
        LongConverter,
        ShortConverter,
    )
} | {
    "io.confluent.connect.avro.AvroConverter": AvroConverter,
    "io.confluent.connect.json.JsonSchemaConverter": JsonSchemaConverter,
    "io.confluent.connect.protobuf.ProtobufConverter": ProtobufLoading,
    f"{_PACKAGE}.json.JsonConverter": JsonConverter,
    f"{_PACKAGE}.storage.StringConverter": StringConverter,
}
HEADER_CONVERTERS: dict[str, type[Converter]] = {
    **CONVERTERS,
    f"{_PACKAGE}.storage.SimpleHeaderConverter": SimpleHeaderConverter,
}


def _short_names(found: Mapping[str, type[Converter]], suffix: str) -> dict[str, str]:
    """Full names by the last part of them, with and without its end."""
    return {
        short: name
        for name in found
        for simple in (name.rpartition(".")[2],)
        for short in (simple, simple.removesuffix(suffix))
    }


_SHORT = _short_names(CONVERTERS, "Converter")
_HEADER = f"{_PACKAGE}.storage.SimpleHeaderConverter"
_SHORT_HEADER = _SHORT | _short_names({_HEADER: SimpleHeaderConverter}, "HeaderConverter")


def full_name(name: str, kind: str = "value") -> str:
    """The name of a class for one that a configuration has: ``JsonConverter`` and ``Json`` will do."""
    return (_SHORT_HEADER if kind == "header" else _SHORT).get(name, name)


def converter(
    name: str,
    given: Mapping[str, object],
    kind: str = "value",
    compatibility: Compatibility = Compatibility.STRICT,
) -> Converter:
    """The converter of this class for keys, values or headers (``kind``), with these settings."""
    known = (HEADER_CONVERTERS if kind == "header" else CONVERTERS).get(full_name(name, kind))
    if known is None:
        raise ConnectException(
            f"Failed to find any class that implements Converter and which name matches {name}"
        )
    return known(given, kind, compatibility)
