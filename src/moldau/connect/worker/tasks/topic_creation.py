"""How topics are made that a source writes to (KIP-158): ``topic.creation.default.*``, and groups of topics
with settings of their own.

Invariant: pure; the first group that a topic belongs to decides, in the order of ``topic.creation.groups``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType
from moldau.connect.config.regex import compile_java
from moldau.connect.config.validators import Checked
from moldau.connect.errors import ConfigException, IllegalArgumentException
from moldau.connect.worker.settings import WorkerSettings

_PREFIX = "topic.creation."
_DEFAULT = "default"


def _positive(what: str) -> Checked:
    reason = f"{what}, or -1 to use the broker's default"

    def check(name: str, value: object) -> None:
        if isinstance(value, int) and value != -1 and value < 1:
            raise ConfigException.of(name, value, reason)

    return Checked(check, reason)


_REPLICAS = _positive(
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"
)
_PARTITIONS = _positive("Number of partitions must be positive")


@dataclass(frozen=True, slots=True)
class TopicGroup:
    include: "re.Pattern[str] | None" = None
    exclude: "re.Pattern[str] | None" = None
    partitions: int = -1
    replicas: int = -1
    #: Settings of the topic itself.
    configs: Mapping[str, str] = field(default_factory=dict)

    def has(self, topic: str) -> bool:
        if self.exclude is not None and self.exclude.fullmatch(topic):
            return False
        return self.include is None or self.include.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The groups of a source; the last one has every topic."""

    groups: tuple[TopicGroup, ...] = (TopicGroup(),)

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "TopicCreation":
        names: list[str] = ConfigDef(ConfigKey(f"{_PREFIX}groups", ConfigType.LIST, [])).parse(config)[
            f"{_PREFIX}groups"
        ]
        default = _group(_DEFAULT, config, TopicGroup())
        return cls((*(_group(name, config, default) for name in names if name != _DEFAULT), default))

    def group_of(self, topic: str) -> TopicGroup:
        return next(group for group in self.groups if group.has(topic))


def creation_of(config: Mapping[str, str], worker: WorkerSettings) -> TopicCreation | None:
    """None where the worker leaves topics to the brokers."""
    return TopicCreation.of(config) if worker.topic_creation else None


def _group(name: str, config: Mapping[str, str], default: TopicGroup) -> TopicGroup:
    prefix = f"{_PREFIX}{name}."
    include, exclude = f"{prefix}include", f"{prefix}exclude"
    partitions, replicas = f"{prefix}partitions", f"{prefix}replication.factor"
    keys = [
        ConfigKey(partitions, ConfigType.INT, default.partitions, validator=_PARTITIONS),
        ConfigKey(replicas, ConfigType.SHORT, default.replicas, validator=_REPLICAS),
    ]
    if name != _DEFAULT:
        keys += [ConfigKey(include, ConfigType.LIST), ConfigKey(exclude, ConfigType.LIST, [])]
    found = ConfigDef(*keys).parse(config)
    own = (include, exclude, partitions, replicas)
    return TopicGroup(
        _pattern(include, found.get(include)),
        _pattern(exclude, found.get(exclude)),
        found[partitions],
        found[replicas],
        {
            key.removeprefix(prefix): value
            for key, value in config.items()
            if key.startswith(prefix) and key not in own
        },
    )


def _pattern(name: str, expressions: list[str] | None) -> "re.Pattern[str] | None":
    """One expression for all; None where there are none."""
    if not expressions:
        return None
    try:
        return compile_java("|".join(expressions))
    except IllegalArgumentException as error:
        raise ConfigException.of(name, expressions, f"Invalid regex: {error.message}") from None
