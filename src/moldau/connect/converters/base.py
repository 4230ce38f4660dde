"""What every converter has: settings, and a way from values to bytes and back.

Invariant: a converter keeps no state between records but schemas that it has seen.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.validators import OneOf
from moldau.connect.data.schema import Schema, SchemaAndValue

CONVERTER_TYPE = ConfigKey(
    "converter.type",
    ConfigType.STRING,
    importance=Importance.LOW,
    doc="What this converter is for.",
    validator=OneOf("key", "value", "header"),
)


class Converter(ABC):
    """Converts keys, values or headers; ``kind`` says which of them."""

    config: ClassVar[ConfigDef] = ConfigDef(CONVERTER_TYPE)

    def __init__(
        self,
        given: Mapping[str, object],
        kind: str = "value",
        compatibility: Compatibility = Compatibility.STRICT,
    ) -> None:
        self.kind = kind
        self.compatibility = compatibility
        self.configure(self.config.parse({**given, "converter.type": kind}))

    @property
    def like_kafka(self) -> bool:
        return self.compatibility is Compatibility.KAFKA

    def configure(self, settings: Settings) -> None:  # noqa: B027  (most converters have no settings)
        """Takes the settings over."""

    @abstractmethod
    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None: ...

    @abstractmethod
    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue: ...

    def from_connect_header(
        self, topic: str, header: str, schema: Schema | None, value: object
    ) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, header: str, raw: bytes | None) -> SchemaAndValue | None:
        """The value of a header, or None where Apache's converters give null for a text of it."""
        return self.to_connect(topic, raw)
