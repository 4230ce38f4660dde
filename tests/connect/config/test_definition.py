"""Definitions of settings: values, errors, and validations that collect them."""

from collections.abc import Mapping

import pytest

from moldau.connect.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    Password,
    parse_value,
    value_text,
)
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.errors import ConfigException


class Colours:
    def valid_values(self, name: str, parsed: Mapping[str, object]) -> list[object]:
        return ["red", "blue"]

    def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
        return parsed["shown"] is True


DEFINITION = ConfigDef(
    ConfigKey("name", ConfigType.STRING, validator=NonEmptyString(), group="Common"),
    ConfigKey("tasks", ConfigType.INT, 1, validator=Range(1)),
    ConfigKey("shown", ConfigType.BOOLEAN, False),
    ConfigKey("colour", ConfigType.STRING, None, recommender=Colours()),
    ConfigKey("mode", ConfigType.STRING, "a", validator=OneOf("a", "b"), dependents=("gone",)),
)


def test_settings_have_values_and_defaults() -> None:
    parsed = DEFINITION.parse({"name": " x ", "tasks": "3", "other": "y"})
    assert parsed == {"name": "x", "tasks": 3, "shown": False, "colour": None, "mode": "a"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, 'Missing required configuration "name" which has no default value.'),
        ({"name": ""}, "Invalid value  for configuration name: String must be non-empty"),
        ({"name": "x", "tasks": "0"}, "Invalid value 0 for configuration tasks: Value must be at least 1"),
        ({"name": "x", "tasks": "x"}, "Invalid value x for configuration tasks: Not a number of type INT"),
        (
            {"name": "x", "shown": "maybe"},
            "Invalid value maybe for configuration shown: Expected value to be either true or false",
        ),
        ({"name": "x", "mode": "c"}, "Invalid value c for configuration mode: String must be one of: a, b"),
    ],
)
def test_the_first_error_is_raised(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigException) as error:
        DEFINITION.parse(given)
    assert error.value.message == message


def test_a_validation_collects_every_error() -> None:
    answers = {answer.name: answer for answer in DEFINITION.validate({"tasks": "many", "shown": "true"})}
    assert answers["name"].errors == ['Missing required configuration "name" which has no default value.']
    assert answers["tasks"].errors == [
        "Invalid value many for configuration tasks: Not a number of type INT",
        "Invalid value null for configuration tasks: Value must be non-null",
    ]
    assert answers["colour"].recommended_values == ["red", "blue"]
    assert answers["colour"].visible
    assert answers["gone"].errors == ["gone is referred in the dependents, but not defined."]
    assert DEFINITION.groups() == ["Common"]


def test_lists_and_secrets() -> None:
    assert parse_value("l", " a , b,,c ", ConfigType.LIST) == ["a", "b", "", "c"]
    assert parse_value("l", "", ConfigType.LIST) == []
    secret = parse_value("p", "hush", ConfigType.PASSWORD)
    assert isinstance(secret, Password)
    assert secret.secret == "hush"
    assert "hush" not in f"{secret} {secret!r} {value_text(secret)}"
    assert value_text(["a", "b"]) == "a,b"
