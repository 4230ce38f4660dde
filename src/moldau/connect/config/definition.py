"""Settings that are defined once, and the values that texts give them.

``ConfigDef.parse`` reads settings or raises the first error; ``ConfigDef.validate`` collects every error with
its setting, for the answers of REST.

Invariant: the same setting has the same errors in both ways, in Kafka's words.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from moldau.connect.config.validators import DistinctValues, Validator
from moldau.connect.data.numbers import parse_double, parse_integer, trim
from moldau.connect.data.text import java_text
from moldau.connect.data.types import Int16, Int32, Int64, Sized, java_class
from moldau.connect.errors import ConfigException, NumberFormatException

_COMMA = re.compile(r"\s*,\s*")


class ConfigType(Enum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Required:
    """Stands where a default would: the setting has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Password:
    """A secret; it prints as ``[hidden]``."""

    secret: str = field(repr=False)

    def __str__(self) -> str:
        return "[hidden]"


class Recommender(Protocol):
    """Which values a setting may have, and whether it is shown, given the others."""

    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]: ...

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool: ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: object = REQUIRED
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    validator: Validator | None = None
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    #: How errors name it, of one that is defined elsewhere without a prefix.
    known_as: str | None = None

    @property
    def parsed_name(self) -> str:
        return self.name if self.known_as is None else self.known_as

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def shown_name(self) -> str:
        return self.display_name or self.name


@dataclass(slots=True)
class ConfigValue:
    """One setting of a validation: its value, and what is wrong with it."""

    name: str
    value: object = None
    recommended_values: list[object] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


Settings = dict[str, Any]


class ConfigDef:
    """Definitions in order; immutable, ``with_keys`` makes a longer one."""

    def __init__(self, *keys: ConfigKey) -> None:
        self._keys = {key.name: key for key in keys}

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def key(self, name: str) -> ConfigKey | None:
        return self._keys.get(name)

    def with_keys(self, *keys: ConfigKey) -> "ConfigDef":
        return ConfigDef(*self._keys.values(), *keys)

    def groups(self) -> list[str]:
        return list(dict.fromkeys(key.group for key in self if key.group is not None))

    def parse(self, given: Mapping[str, object]) -> Settings:
        """Every defined setting with its value; what is not defined is left alone."""
        return {key.name: self._parse_key(key, given) for key in self}

    def _parse_key(self, key: ConfigKey, given: Mapping[str, object]) -> object:
        if key.name in given:
            value = _parsed(key, given[key.name])
        elif key.required:
            raise ConfigException(_missing(key.name))
        else:
            value = key.default
        if key.validator is not None:
            key.validator.check(key.name, value)
        return value

    def validate(self, given: Mapping[str, object]) -> list[ConfigValue]:
        """One answer for each setting, errors inside."""
        answers = {key.name: ConfigValue(key.name) for key in self}
        for missing in self._undefined_dependents():
            answers[missing] = ConfigValue(
                missing, errors=[f"{missing} is referred in the dependents, but not defined."], visible=False
            )
        parsed = {key.name: _validated(key, given, answers[key.name]) for key in self}
        for key in self:
            _recommend(key, parsed, answers[key.name])
        return list(answers.values())

    def _undefined_dependents(self) -> Iterable[str]:
        return dict.fromkeys(name for key in self for name in key.dependents if name not in self._keys)


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _parsed(key: ConfigKey, given: object) -> object:
    value = parse_value(key.name, given, key.type)
    if isinstance(value, list) and isinstance(key.validator, DistinctValues):
        return list(dict.fromkeys(value))
    return value


def _validated(key: ConfigKey, given: Mapping[str, object], answer: ConfigValue) -> object:
    value: object = None
    if key.name in given:
        try:
            value = parse_value(key.parsed_name, given[key.name], key.type)
        except ConfigException as error:
            answer.errors.append(error.message)
    elif key.required:
        answer.errors.append(_missing(key.name))
    else:
        value = key.default
    if key.validator is not None:
        try:
            key.validator.check(key.name, value)
        except ConfigException as error:
            answer.errors.append(error.message)
    answer.value = value
    return value


def _recommend(key: ConfigKey, parsed: Mapping[str, object], answer: ConfigValue) -> None:
    if key.recommender is None:
        return
    try:
        answer.recommended_values = key.recommender.valid_values(key.name, parsed)
        answer.visible = key.recommender.visible(key.name, parsed)
    except ConfigException as error:
        answer.errors.append(error.message)


# --- values -----------------------------------------------------------------------------------------


def parse_value(name: str, value: object, kind: ConfigType) -> object:
    """A value of a setting from its text; a value that has its type already is taken as it is."""
    if value is None:
        return None
    text = trim(value) if isinstance(value, str) else None
    return _PARSERS[kind](name, value, text)


def _boolean(name: str, value: object, text: str | None) -> object:
    if isinstance(value, bool):
        return value
    if text is not None and text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ConfigException.of(name, value, "Expected value to be either true or false")


def _string(name: str, value: object, text: str | None) -> object:
    if text is None:
        raise ConfigException.of(
            name, value, f"Expected value to be a string, but it was a {java_class(value)}"
        )
    return text


def _password(name: str, value: object, text: str | None) -> object:
    if isinstance(value, Password):
        return value
    if text is None:
        raise ConfigException.of(
            name, value, f"Expected value to be a string, but it was a {java_class(value)}"
        )
    return Password(text)


def _list(name: str, value: object, text: str | None) -> object:
    if isinstance(value, list):
        return value
    if text is None:
        raise ConfigException.of(name, value, "Expected a comma separated list.")
    return _COMMA.split(text) if text else []


def _class(name: str, value: object, text: str | None) -> object:
    if text is None:
        raise ConfigException.of(name, value, "Expected a Class instance or class name.")
    return text


def _integer(kind: ConfigType, width: type[Sized]) -> Callable[[str, object, str | None], object]:
    word = {Int16: "short", Int32: "32-bit integer", Int64: "64-bit integer"}[width]

    def parse(name: str, value: object, text: str | None) -> object:
        if isinstance(value, int) and not isinstance(value, bool) and width.holds(value):
            return int(value)
        if text is None:
            raise ConfigException.of(
                name, value, f"Expected value to be a {word}, but it was a {java_class(value)}"
            )
        try:
            return int(parse_integer(text, width))
        except NumberFormatException:
            raise ConfigException.of(name, value, f"Not a number of type {kind.name}") from None

    return parse


def _double(name: str, value: object, text: str | None) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if text is None:
        raise ConfigException.of(
            name, value, f"Expected value to be a double, but it was a {java_class(value)}"
        )
    try:
        return parse_double(text)
    except NumberFormatException:
        raise ConfigException.of(name, value, "Not a number of type DOUBLE") from None


_PARSERS: dict[ConfigType, Callable[[str, object, str | None], object]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.INT: _integer(ConfigType.INT, Int32),
    ConfigType.SHORT: _integer(ConfigType.SHORT, Int16),
    ConfigType.LONG: _integer(ConfigType.LONG, Int64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _class,
    ConfigType.PASSWORD: _password,
}


def value_text(value: object) -> str | None:
    """A value as REST shows it: lists with commas, secrets hidden."""
    if value is None:
        return None
    if isinstance(value, list):
        return ",".join(map(java_text, value))
    return java_text(value)
