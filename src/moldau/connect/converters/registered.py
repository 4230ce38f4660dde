"""What converters with a schema registry share: its address, and the questions to it.

Invariant: what the registry cannot be asked for now may be tried again; what it refuses is a DataException.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegisteredSchema, RegistryClient
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.converters.base import CONVERTER_TYPE, Converter
from moldau.connect.errors import DataException, RetriableException

_T = TypeVar("_T")
PREFIX_BYTES = 5
MAX_KEPT = 1000


class RegistryConverter(Converter):
    schema_type = "AVRO"
    config = ConfigDef(
        CONVERTER_TYPE,
        ConfigKey(
            "schema.registry.url",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Addresses of the schema registry, separated by commas.",
        ),
        ConfigKey(
            "basic.auth.user.info",
            ConfigType.PASSWORD,
            None,
            Importance.MEDIUM,
            "Name and password for the registry, such as ann:secret.",
        ),
        ConfigKey(
            "auto.register.schemas",
            ConfigType.BOOLEAN,
            True,
            Importance.MEDIUM,
            "Whether schemas that the registry does not know are registered.",
        ),
    )

    def configure(self, settings: Settings) -> None:
        info = settings["basic.auth.user.info"]
        user, _, password = info.secret.partition(":") if info is not None else ("", "", "")
        self.registry = RegistryClient(
            ",".join(settings["schema.registry.url"]), user=user or None, password=password or None
        )
        self._registers: bool = settings["auto.register.schemas"]

    def registered_id(self, topic: str, text: str) -> int:
        """The id of a schema, which is registered if it is new and that is allowed."""
        subject, kind = f"{topic}-{self.kind}", self.schema_type
        return self.asked(
            lambda: (
                self.registry.register(subject, text, kind)
                if self._registers
                else self.registry.lookup(subject, text, kind).schema_id
            )
        )

    def schema_with(self, schema_id: int) -> RegisteredSchema:
        found = self.asked(lambda: self.registry.by_id(schema_id))
        if found.schema_type != self.schema_type:
            raise DataException(f"The schema {schema_id} is {found.schema_type}, not {self.schema_type}")
        return found

    def asked(self, question: Callable[[], _T]) -> _T:
        try:
            return question()
        except RegistryError as error:
            if error.status == 0 or error.status >= 500:
                raise RetriableException(f"The schema registry cannot be asked: {error}") from error
            raise DataException(f"The schema registry refuses the schema: {error}") from error


def registry_hosts(config: Mapping[str, str]) -> list[str]:
    """Hosts of the registries that the converters of a connector's configuration ask."""
    urls = [config.get(f"{side}.converter.schema.registry.url", "") for side in ("key", "value", "header")]
    return [urlsplit(url.strip()).hostname or "" for url in ",".join(urls).split(",") if url.strip()]


def schema_id_of(raw: bytes, topic: str, kind: str) -> int:
    if len(raw) < PREFIX_BYTES or raw[0] != 0:
        raise DataException(
            f"Failed to deserialize data for topic {topic} to {kind}: there is no schema id before it"
        )
    return int.from_bytes(raw[1:PREFIX_BYTES], "big")
