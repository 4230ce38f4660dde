"""ProtobufConverter, loaded when it is used: the library is not there for everybody.

Invariant: to list converters needs no library; a missing one says what to install.
"""

from collections.abc import Mapping

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import Settings
from moldau.connect.converters.base import Converter
from moldau.connect.converters.registered import RegistryConverter
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.errors import ConnectException


class ProtobufLoading(RegistryConverter):
    schema_type = "PROTOBUF"

    def __init__(
        self,
        given: Mapping[str, object],
        kind: str = "value",
        compatibility: Compatibility = Compatibility.STRICT,
    ) -> None:
        try:
            from moldau.connect.converters.protobuf import ProtobufConverter
        except ImportError as error:
            raise ConnectException(
                f"ProtobufConverter needs {error.name}. Next: pip install 'moldau[serde]'"
            ) from error
        self.made: Converter = ProtobufConverter(given, kind, compatibility)
        super().__init__(given, kind, compatibility)

    def configure(self, settings: Settings) -> None:
        """The converter that is loaded has taken them over."""

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        return self.made.from_connect(topic, schema, value)

    def to_connect(self, topic: str, raw: bytes | None) -> SchemaAndValue:
        return self.made.to_connect(topic, raw)
