"""Transforms of topics: RegexRouter renames by a regular expression, TimestampRouter by a record's time."""

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.config.regex import compile_java, replace_first
from moldau.connect.config.validators import ValidRegex
from moldau.connect.data.dates import DateFormat
from moldau.connect.errors import DataException
from moldau.connect.transforms.base import R, Transformation


class RegexRouter(Transformation):
    config = ConfigDef(
        ConfigKey(
            "regex",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="A regular expression that has to match the whole name of the topic.",
            validator=ValidRegex(),
        ),
        ConfigKey(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The new name; $1 stands for the first group of the expression.",
        ),
    )

    def configure(self, settings: Settings) -> None:
        self._regex = compile_java(settings["regex"])
        self._replacement: str = settings["replacement"]

    def apply(self, record: R) -> R:
        if self._regex.fullmatch(record.topic) is None:
            return record
        return record.replaced(topic=replace_first(self._regex, record.topic, self._replacement))


class TimestampRouter(Transformation):
    config = ConfigDef(
        ConfigKey(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            Importance.HIGH,
            "The new name; ${topic} and ${timestamp} stand for the topic and the time of the record.",
        ),
        ConfigKey(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            Importance.HIGH,
            "How the time is written, as a pattern of Java's SimpleDateFormat.",
        ),
    )

    def configure(self, settings: Settings) -> None:
        self._format: str = settings["topic.format"]
        self._pattern: str = settings["timestamp.format"]
        self._written: DateFormat | None = None
        if not self.like_kafka:  # Apache's notices a bad pattern at the first record only
            self._written = DateFormat(self._pattern)

    def apply(self, record: R) -> R:
        if record.timestamp is None:
            raise DataException(f"Timestamp missing on record: {record}")
        if self._written is None:
            self._written = DateFormat(self._pattern)
        named = self._format.replace("${topic}", record.topic)
        return record.replaced(topic=named.replace("${timestamp}", self._written.format(record.timestamp)))
