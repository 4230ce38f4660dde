"""The settings that every connector has, beside its own: names, tasks, converters, transforms, error
handling.

Invariant: names, types, defaults, groups and their order are Kafka Connect's.
"""

from collections.abc import Mapping

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Width
from moldau.connect.config.validators import (
    All,
    Checked,
    DistinctValues,
    NonEmptyString,
    NonNull,
    OneOf,
    OneOfAnyCase,
    Range,
    Validator,
    ValidRegex,
    WithoutControlCharacters,
)
from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS
from moldau.connect.converters.catalogue import full_name as full_converter_name
from moldau.connect.errors import ConfigException
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS

COMMON, TRANSFORMS_GROUP, PREDICATES_GROUP = "Common", "Transforms", "Predicates"
ERRORS, TOPIC_CREATION = "Error Handling", "Topic Creation"
EXACTLY_ONCE, OFFSETS = "Exactly Once Support", "offsets.topic"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def known_class(name: str) -> bool:
    """Whether any plugin but a connector has this class name."""
    return name in CONVERTERS or name in HEADER_CONVERTERS or name in TRANSFORMS or name in PREDICATES


def _implements(found: Mapping[str, object], interface: str, full_name: str) -> Validator:
    kind = "header" if interface == "HeaderConverter" else "value"

    def check(name: str, value: object) -> None:
        if value is None or full_converter_name(str(value), kind) in found:
            return
        if known_class(str(value)) or str(value).startswith("org.apache.kafka.connect.file."):
            raise ConfigException(f"Class class {value} does not implement the {interface} interface")
        raise ConfigException.of(name, value, f"Class {value} could not be found.")

    return Checked(
        check, f"A concrete subclass of {full_name}, A class with a public, no-argument constructor"
    )


_CONVERTER = _implements(CONVERTERS, "Converter", "org.apache.kafka.connect.storage.Converter")
_HEADER_CONVERTER = _implements(
    HEADER_CONVERTERS, "HeaderConverter", "org.apache.kafka.connect.storage.HeaderConverter"
)


def _any_version(name: str, value: object) -> None:
    """There is one version of each plugin; what is asked for is compared when it is made."""


_VERSION = Checked(_any_version, "(code)")


def _distinct(what: str) -> Validator:
    def check(name: str, value: object) -> None:
        if isinstance(value, list) and len(set(value)) != len(value):
            raise ConfigException.of(name, value, "Duplicate alias provided.")

    return All(NonNull(), Checked(check, f"unique {what}"))


def _version_key(name: str, shown: str, order: int, importance: Importance, width: Width) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.STRING,
        None,
        importance,
        "Which version of the plugin to use; the newest if it is left out.",
        _VERSION,
        COMMON,
        order,
        width,
        shown,
    )


def _class_key(name: str, shown: str, order: int, validator: Validator) -> ConfigKey:
    doc = "The class of the converter; the worker's if it is left out."
    return ConfigKey(name, ConfigType.CLASS, None, _LOW, doc, validator, COMMON, order, Width.SHORT, shown)


BASE = ConfigDef(
    ConfigKey(
        "name",
        ConfigType.STRING,
        importance=_HIGH,
        doc="A name that no other connector has.",
        validator=WithoutControlCharacters(),
        group=COMMON,
        order=1,
        width=Width.MEDIUM,
        display_name="Connector name",
    ),
    ConfigKey(
        "connector.class",
        ConfigType.STRING,
        importance=_HIGH,
        doc="The class of the connector, in full or by the last part of its name.",
        group=COMMON,
        order=2,
        width=Width.LONG,
        display_name="Connector class",
    ),
    _version_key("connector.plugin.version", "Connector version", 3, _MEDIUM, Width.MEDIUM),
    ConfigKey(
        "tasks.max",
        ConfigType.INT,
        1,
        _HIGH,
        "How many tasks there may be at most.",
        Range(1),
        COMMON,
        4,
        Width.SHORT,
        "Tasks max",
    ),
    ConfigKey(
        "tasks.max.enforce",
        ConfigType.BOOLEAN,
        True,
        _LOW,
        "Whether a connector that wants more tasks fails.",
        None,
        COMMON,
        5,
        Width.SHORT,
        "Enforce tasks max",
    ),
    _class_key("key.converter", "Key converter class", 6, _CONVERTER),
    _version_key("key.converter.plugin.version", "Key converter version", 7, _LOW, Width.SHORT),
    _class_key("value.converter", "Value converter class", 8, _CONVERTER),
    _version_key("value.converter.plugin.version", "Value converter version", 9, _LOW, Width.SHORT),
    _class_key("header.converter", "Header converter class", 10, _HEADER_CONVERTER),
    _version_key("header.converter.plugin.version", "Header converter version", 11, _LOW, Width.SHORT),
    ConfigKey(
        "transforms",
        ConfigType.LIST,
        [],
        _LOW,
        "Names of transforms, in the order in which records pass them.",
        _distinct("transformation aliases"),
        TRANSFORMS_GROUP,
        12,
        Width.LONG,
        "Transforms",
    ),
    ConfigKey(
        "predicates",
        ConfigType.LIST,
        [],
        _LOW,
        "Names of predicates that transforms may ask.",
        _distinct("predicate aliases"),
        PREDICATES_GROUP,
        13,
        Width.LONG,
        "Predicates",
    ),
    ConfigKey(
        "config.action.reload",
        ConfigType.STRING,
        "restart",
        _LOW,
        "What happens when a value that a provider gave changes.",
        OneOf("none", "restart"),
        COMMON,
        14,
        Width.MEDIUM,
        "Reload Action",
    ),
    ConfigKey(
        "errors.retry.timeout",
        ConfigType.LONG,
        0,
        _MEDIUM,
        "For how many milliseconds a failed step is tried again; -1 is for ever.",
        None,
        ERRORS,
        1,
        Width.MEDIUM,
        "Retry Timeout for Errors",
    ),
    ConfigKey(
        "errors.retry.delay.max.ms",
        ConfigType.LONG,
        60_000,
        _MEDIUM,
        "The longest pause between two attempts.",
        None,
        ERRORS,
        2,
        Width.MEDIUM,
        "Maximum Delay Between Retries for Errors",
    ),
    ConfigKey(
        "errors.tolerance",
        ConfigType.STRING,
        "none",
        _MEDIUM,
        "none fails the task at a bad record, all leaves the record out.",
        OneOf("none", "all"),
        ERRORS,
        3,
        Width.SHORT,
        "Error Tolerance",
    ),
    ConfigKey(
        "errors.log.enable",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Whether each error is logged.",
        None,
        ERRORS,
        4,
        Width.SHORT,
        "Log Errors",
    ),
    ConfigKey(
        "errors.log.include.messages",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Whether the log says which record it was.",
        None,
        ERRORS,
        5,
        Width.SHORT,
        "Log Error Details",
    ),
)

SOURCE = BASE.with_keys(
    ConfigKey(
        "topic.creation.groups",
        ConfigType.LIST,
        [],
        _LOW,
        "Names of groups of topics that are created with settings of their own.",
        _distinct("topic creation groups"),
        TOPIC_CREATION,
        1,
        Width.LONG,
        "Topic Creation Groups",
    ),
    ConfigKey(
        "exactly.once.support",
        ConfigType.STRING,
        "requested",
        _MEDIUM,
        "required refuses a connector that cannot deliver exactly once.",
        OneOfAnyCase("REQUIRED", "REQUESTED"),
        EXACTLY_ONCE,
        2,
        Width.SHORT,
        "Exactly once support",
    ),
    ConfigKey(
        "transaction.boundary",
        ConfigType.STRING,
        "poll",
        _MEDIUM,
        "When transactions end: with each poll, after some time, or when the connector says so.",
        OneOfAnyCase("INTERVAL", "POLL", "CONNECTOR"),
        EXACTLY_ONCE,
        3,
        Width.SHORT,
        "Transaction Boundary",
    ),
    ConfigKey(
        "transaction.boundary.interval.ms",
        ConfigType.LONG,
        None,
        _LOW,
        "How long a transaction lasts where time ends it.",
        Checked(lambda name, value: None if value is None else Range(0).check(name, value), "[0,...]"),
        EXACTLY_ONCE,
        4,
        Width.SHORT,
        "Transaction boundary interval",
    ),
    ConfigKey(
        "offsets.storage.topic",
        ConfigType.STRING,
        None,
        _LOW,
        "A topic of its own for the connector's offsets.",
        NonEmptyString(),
        OFFSETS,
        1,
        Width.LONG,
        "Offsets topic",
    ),
)

SINK = BASE.with_keys(
    ConfigKey(
        "topics",
        ConfigType.LIST,
        [],
        _HIGH,
        "The topics to read.",
        DistinctValues(empty=True),
        COMMON,
        4,
        Width.LONG,
        "Topics",
    ),
    ConfigKey(
        "topics.regex",
        ConfigType.STRING,
        "",
        _HIGH,
        "A regular expression for the topics to read.",
        ValidRegex(),
        COMMON,
        4,
        Width.LONG,
        "Topics regex",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.name",
        ConfigType.STRING,
        "",
        _MEDIUM,
        "The topic that gets records which could not be handled.",
        None,
        ERRORS,
        6,
        Width.MEDIUM,
        "Dead Letter Queue Topic Name",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.replication.factor",
        ConfigType.SHORT,
        3,
        _MEDIUM,
        "How many replicas that topic gets when it is made.",
        None,
        ERRORS,
        7,
        Width.MEDIUM,
        "Dead Letter Queue Topic Replication Factor",
    ),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable",
        ConfigType.BOOLEAN,
        False,
        _MEDIUM,
        "Whether headers say what went wrong, and where.",
        None,
        ERRORS,
        8,
        Width.MEDIUM,
        "Enable Error Context Headers",
    ),
)
