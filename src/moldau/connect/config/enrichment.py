"""The settings of the transforms and predicates that a configuration names, under the names that they have
there.

``transforms=mask`` brings ``transforms.mask.type``, and its type brings the settings of that transform.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from moldau.connect.config.definition import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    Width,
    parse_value,
)
from moldau.connect.config.framework import known_class
from moldau.connect.config.validators import Checked, Validator
from moldau.connect.connector import Connector
from moldau.connect.errors import ConfigException
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS, full_name
from moldau.connect.transforms.python import TYPE as PYTHON
from moldau.connect.transforms.python import PythonTransform


@dataclass(frozen=True, slots=True)
class Names:
    """A recommender that offers a list of names."""

    names: tuple[object, ...]

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return list(self.names)

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return True


def embedded(prefix: str, group: str, keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """Settings under a prefix. Their validators go on speaking of the names without it, as Kafka's do."""
    return [
        replace(
            key,
            name=prefix + key.name,
            display_name=key.shown_name,
            group=group,
            order=order,
            validator=_without_prefix(prefix, key.validator),
        )
        for order, key in enumerate(keys, start=2)
    ]


def _without_prefix(prefix: str, validator: Validator | None) -> Validator | None:
    if validator is None:
        return None
    known = validator
    return Checked(lambda name, value: known.check(name.removeprefix(prefix), value), str(validator))


def transform_keys(given: Mapping[str, object]) -> list[ConfigKey]:
    keys: list[ConfigKey] = []
    for alias in _aliases(given, "transforms"):
        prefix, group = f"transforms.{alias}.", f"Transforms: {alias}"
        known = {name: config for name, (_, config) in TRANSFORMS.items()}
        if _text(given, f"{prefix}type") == PYTHON:
            known[PYTHON] = PythonTransform.config
        keys += _type_keys(prefix, group, "Transformation", known, _text(given, f"{prefix}type"))
        config = known.get(_text(given, f"{prefix}type"))
        if config is not None:
            keys += embedded(prefix, group, [*config, *_PREDICATE_KEYS])
    return keys


def predicate_keys(given: Mapping[str, object]) -> list[ConfigKey]:
    keys: list[ConfigKey] = []
    for alias in _aliases(given, "predicates"):
        prefix, group = f"predicates.{alias}.", f"Predicates: {alias}"
        found = {name: kind.config for name, kind in PREDICATES.items()}
        keys += _type_keys(prefix, group, "Predicate", found, _text(given, f"{prefix}type"))
        kind = PREDICATES.get(_text(given, f"{prefix}type"))
        if kind is not None:
            keys += embedded(prefix, group, kind.config)
    return keys


def _aliases(given: Mapping[str, object], name: str) -> list[str]:
    found = parse_value(name, given.get(name), ConfigType.LIST)
    return list(dict.fromkeys(found)) if isinstance(found, list) else []


def _text(given: Mapping[str, object], name: str) -> str:
    return full_name(str(given.get(name, "")).strip())


_PREDICATE_KEYS = (
    ConfigKey(
        "negate",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether the transform is for the records that the predicate is not true of.",
    ),
    ConfigKey(
        "predicate",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "The name of the predicate that says which records the transform is for.",
    ),
)


def _type_keys(
    prefix: str, group: str, interface: str, found: Mapping[str, ConfigDef], chosen: str
) -> list[ConfigKey]:
    versions = (Connector.version,) if chosen in found else ()
    word = interface.lower()

    def check(name: str, value: object) -> None:
        if value is None or full_name(str(value)) in found:
            return
        sided = [each for each in found if each.startswith(f"{value}$")]
        if sided:
            raise ConfigException(
                f"This class is abstract and cannot be created. Did you mean {', '.join(sided)}?"
            )
        if known_class(str(value)):
            raise ConfigException(f"Class class {value} does not implement the {interface} interface")
        raise ConfigException.of(name, value, f"Class {value} could not be found.")

    return [
        ConfigKey(
            f"{prefix}type",
            ConfigType.CLASS,
            REQUIRED,
            Importance.HIGH,
            f"The class of the {word}.",
            Checked(check, "(code)"),
            group,
            0,
            Width.LONG,
            f"{interface} type for {prefix.split('.', 1)[1].removesuffix('.')}",
            recommender=Names(tuple(sorted(found))),
        ),
        ConfigKey(
            f"{prefix}plugin.version",
            ConfigType.STRING,
            Connector.version if versions else None,
            Importance.LOW,
            f"Which version of the {word} to use.",
            None,
            group,
            1,
            Width.LONG,
            f"{interface} version for {prefix.split('.', 1)[1].removesuffix('.')}",
            recommender=Names(versions),
        ),
    ]
