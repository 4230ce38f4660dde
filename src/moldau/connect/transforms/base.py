"""What transforms share: the side of a record that they work on, requirements, and schemas that were made
before.

Invariant: a transform keeps no state between records but schemas; the same record gives the same result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, TypeVar

from moldau.connect.compatibility import Compatibility
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.data.schema import Schema, Struct
from moldau.connect.data.types import java_class
from moldau.connect.errors import ClassCastException, DataException
from moldau.connect.records import ConnectRecord, SinkRecord

R = TypeVar("R", bound=ConnectRecord)

REPLACE_NULL = ConfigKey(
    "replace.null.with.default",
    ConfigType.BOOLEAN,
    True,
    Importance.MEDIUM,
    "Whether fields that are null and have a default value read as that default.",
)


class Side(Enum):
    KEY = "Key"
    VALUE = "Value"


class Transformation(ABC):
    """One step of a connector's chain."""

    config: ClassVar[ConfigDef] = ConfigDef()

    def __init__(
        self, given: Mapping[str, object], compatibility: Compatibility = Compatibility.STRICT
    ) -> None:
        self.compatibility = compatibility
        self.configure(self.config.parse(given))

    @property
    def like_kafka(self) -> bool:
        return self.compatibility is Compatibility.KAFKA

    def configure(self, settings: Settings) -> None:  # noqa: B027  (many transforms have no settings)
        """Takes the settings over; raises ConfigException if they make no sense together."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """The record that goes on, or None if it is dropped."""


class SidedTransformation(Transformation):
    """A transform that works on the key or on the value of a record."""

    def __init__(
        self,
        side: Side,
        given: Mapping[str, object],
        compatibility: Compatibility = Compatibility.STRICT,
    ) -> None:
        self.side = side
        super().__init__(given, compatibility)

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        return record.key_schema if self.side is Side.KEY else record.value_schema

    def value_of(self, record: ConnectRecord) -> object:
        return record.key if self.side is Side.KEY else record.value

    def changed(self, record: R, schema: Schema | None, value: object, **more: Any) -> R:
        """The record with another schema and value on this side."""
        if self.side is Side.KEY:
            return record.replaced(key_schema=schema, key=value, **more)
        return record.replaced(value_schema=schema, value=value, **more)


class SchemaCache:
    """The last few schemas that a transform made of others."""

    def __init__(self, make: Callable[[Schema], Schema], size: int = 16) -> None:
        self._make = make
        self._size = size
        self._made: dict[Schema, Schema] = {}

    def of(self, schema: Schema) -> Schema:
        made = self._made.get(schema)
        if made is None:
            made = self._make(schema)
            if len(self._made) >= self._size:
                del self._made[next(iter(self._made))]
            self._made[schema] = made
        return made


def require_map(value: object, purpose: str) -> dict[Any, object]:
    if not isinstance(value, dict):
        raise DataException(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {_class_of(value)}"
        )
    return value


def require_struct(value: object, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataException(f"Only Struct objects supported for [{purpose}], found: {_class_of(value)}")
    return value


def require_sink_record(record: ConnectRecord, purpose: str) -> SinkRecord:
    if not isinstance(record, SinkRecord):
        raise DataException(f"Only SinkRecord supported for [{purpose}], found: {_class_of(record)}")
    return record


def _class_of(value: object) -> str:
    return "null" if value is None else java_class(value)


def field_name(key: object) -> str | None:
    """The key of a map without a schema, which has to be a name; Java's maps may have null for one."""
    if key is None or isinstance(key, str):
        return key
    found = _class_of(key)
    raise ClassCastException(
        f"class {found} cannot be cast to class java.lang.String ({found} and java.lang.String are in module "
        "java.base of loader 'bootstrap')"
    )


def java_split(text: str, separator: str) -> list[str]:
    """Java's split: empty parts at the end are dropped."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts
