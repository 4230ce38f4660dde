"""What values a setting may have. A validator raises ConfigException, and its text says in a few words what
it wants.

Invariant: messages and texts are Kafka's; a validator without a text there has none here.
"""

from collections.abc import Callable
from typing import Protocol

from moldau.connect.config.regex import compile_java
from moldau.connect.data.text import java_text
from moldau.connect.errors import ConfigException, IllegalArgumentException


class Validator(Protocol):
    def check(self, name: str, value: object) -> None: ...


class OneOf:
    """One of some words, to the letter."""

    def __init__(self, *words: str | None) -> None:
        self._words = words

    def check(self, name: str, value: object) -> None:
        if value not in self._words:
            wanted = ", ".join(map(java_text, self._words))
            raise ConfigException.of(name, value, f"String must be one of: {wanted}")

    def __str__(self) -> str:
        return f"[{', '.join(map(java_text, self._words))}]"


class OneOfAnyCase:
    """One of some words, in capitals or not."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str) or value.upper() not in self._words:
            wanted = ", ".join(self._words)
            raise ConfigException.of(name, value, f"String must be one of (case insensitive): {wanted}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self._words)}]"


class NonEmptyString:
    def check(self, name: str, value: object) -> None:
        if value == "":
            raise ConfigException.of(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonNull:
    def check(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException.of(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class WithoutControlCharacters:
    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            return
        if not value:
            raise ConfigException.of(name, value, "String may not be empty")
        found = [ord(character) for character in value if ord(character) < 32 or 127 <= ord(character) < 160]
        if found:
            shown = ", ".join(map(str, found))
            raise ConfigException.of(
                name,
                value,
                f"String may not contain control sequences but had the following ASCII chars: {shown}",
            )

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class Range:
    """Numbers between two bounds, both included; one of them may be open."""

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self._least, self._most = least, most

    def check(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException.of(name, None, "Value must be non-null")
        assert isinstance(value, int | float)
        if self._least is not None and value < self._least:
            raise ConfigException.of(name, value, f"Value must be at least {self._least}")
        if self._most is not None and value > self._most:
            raise ConfigException.of(name, value, f"Value must be no more than {self._most}")

    def __str__(self) -> str:
        if self._least is None:
            return "[...]" if self._most is None else f"[...,{self._most}]"
        return f"[{self._least},...]" if self._most is None else f"[{self._least},...,{self._most}]"


class NonEmptyList:
    def check(self, name: str, value: object) -> None:
        if not value:
            raise ConfigException.of(name, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


class DistinctValues:
    """A list without values that come again or are empty; it may be empty where allowed. Who reads the list
    leaves out what comes again, before it is checked; who validates a configuration is told."""

    def __init__(self, empty: bool = False) -> None:
        self._empty = empty

    def check(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, list)
        if not value and not self._empty:
            raise ConfigException(
                f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
            )
        if len(set(value)) != len(value):
            raise ConfigException(f"Configuration '{name}' values must not be duplicated.")
        if "" in value:
            raise ConfigException(f"Configuration '{name}' values must not be empty.")

    def __str__(self) -> str:
        return ""


class ValidRegex:
    def check(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException.of(
                name,
                value,
                'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null',
            )
        try:
            compile_java(str(value))
        except IllegalArgumentException as error:
            raise ConfigException.of(name, value, f"Invalid regex: {error.message}") from None

    def __str__(self) -> str:
        return "valid regex"


class All:
    """Several validators, one after the other."""

    def __init__(self, *validators: Validator) -> None:
        self._validators = validators

    def check(self, name: str, value: object) -> None:
        for validator in self._validators:
            validator.check(name, value)

    def __str__(self) -> str:
        return ", ".join(map(str, self._validators))


class Checked:
    """A rule of its own, with the text that describes it."""

    def __init__(self, rule: Callable[[str, object], None], text: str) -> None:
        self._rule, self._text = rule, text

    def check(self, name: str, value: object) -> None:
        self._rule(name, value)

    def __str__(self) -> str:
        return self._text
