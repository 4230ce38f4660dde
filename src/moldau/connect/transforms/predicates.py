"""Predicates: which records a transform is applied to. Filter is the transform that drops those."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.regex import compile_java
from moldau.connect.config.validators import All, NonEmptyString, ValidRegex
from moldau.connect.records import ConnectRecord
from moldau.connect.transforms.base import R, Transformation


class Filter(Transformation):
    """Drops every record that it gets; a predicate says which ones that are."""

    def apply(self, record: R) -> R | None:
        return None


class Predicate(ABC):
    config: ClassVar[ConfigDef] = ConfigDef()

    def __init__(self, given: Mapping[str, object]) -> None:
        self.configure(self.config.parse(given))

    def configure(self, settings: Settings) -> None:  # noqa: B027  (one of them has no settings)
        """Takes the settings over."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool: ...


class HasHeaderKey(Predicate):
    config = ConfigDef(
        ConfigKey(
            "name",
            ConfigType.STRING,
            importance=Importance.MEDIUM,
            doc="The name of the header.",
            validator=NonEmptyString(),
        )
    )

    def configure(self, settings: Settings) -> None:
        self.name: str = settings["name"]

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self.name for header in record.headers)


class RecordIsTombstone(Predicate):
    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    config = ConfigDef(
        ConfigKey(
            "pattern",
            ConfigType.STRING,
            importance=Importance.MEDIUM,
            doc="A regular expression that has to match the whole name of the topic.",
            validator=All(NonEmptyString(), ValidRegex()),
        )
    )

    def configure(self, settings: Settings) -> None:
        self._pattern = compile_java(settings["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
