"""A configuration of a connector, checked as a whole: every setting with its definition, value and errors.

Invariant: a secret is shown as ``[hidden]``; what was wrong with one setting never hides another.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, ConfigValue, value_text
from moldau.connect.config.enrichment import embedded, predicate_keys, transform_keys
from moldau.connect.config.framework import SINK, SOURCE
from moldau.connect.config.regex import compile_java
from moldau.connect.connector import Connector, SourceConnector
from moldau.connect.converters.catalogue import HEADER_CONVERTERS
from moldau.connect.errors import IllegalArgumentException

Given = Mapping[str, str | None]

_NULL = "Null value can not be supplied as the configuration value."


@dataclass(frozen=True, slots=True)
class Validation:
    """What REST answers to a validation."""

    name: str
    groups: list[str]
    entries: list[tuple[ConfigKey | None, ConfigValue]]

    @property
    def errors(self) -> list[str]:
        return [error for _, value in self.entries for error in value.errors]

    def refusal(self) -> str | None:
        """What the creation of a connector with this configuration says, or None if all is well."""
        errors = self.errors
        if not errors:
            return None
        return (
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
            + "\n".join(errors)
            + "\nYou can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )

    def answer(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": self.groups,
            "configs": [
                {"definition": None if key is None else definition_node(key), "value": _value_node(value)}
                for key, value in self.entries
            ],
        }


def definition_node(key: ConfigKey) -> dict[str, Any]:
    """A definition as REST shows it."""
    return {
        "name": key.name,
        "type": key.type.name,
        "required": key.required,
        "default_value": None if key.required else value_text(key.default),
        "importance": key.importance.name,
        "documentation": key.doc,
        "group": key.group,
        "width": key.width.name,
        "display_name": key.shown_name,
        "dependents": list(key.dependents),
        "order_in_group": key.order,
    }


def _value_node(value: ConfigValue) -> dict[str, Any]:
    return {
        "name": value.name,
        "value": value_text(value.value),
        "recommended_values": [value_text(each) for each in value.recommended_values],
        "errors": value.errors,
        "visible": value.visible,
    }


def definition_of(connector: type[Connector]) -> ConfigDef:
    """The settings of every connector of its kind, and its own."""
    return (SOURCE if connector.kind == "source" else SINK).with_keys(*connector.config)


def validate(connector: type[Connector], given: Given, worker_exactly_once: bool = True) -> Validation:
    """``worker_exactly_once``: whether the worker lets sources write in transactions."""
    known = {name: value for name, value in given.items() if value is not None}
    base = SOURCE if connector.kind == "source" else SINK
    extra = [*transform_keys(known), *predicate_keys(known)]
    definition = ConfigDef(*base, *extra, *connector.config, *_converter_keys(known))
    answers = {value.name: value for value in definition.validate(known)}
    _forget_unknown_classes(definition, answers)
    _check_negation(known, answers)
    if connector.kind == "source":
        _check_source(connector, known, answers, worker_exactly_once)
    else:
        _check_sink(connector, known, answers)
    for name, errors in connector.check(known).items():
        answers.setdefault(name, ConfigValue(name)).errors.extend(errors)
    for name, value in given.items():
        if value is None:
            answers[name] = ConfigValue(name, errors=[_NULL])
    name = str(known.get("connector.class", connector.class_name))
    groups = ConfigDef(*base, *extra, *connector.config).groups()
    return Validation(name, groups, [(definition.key(key), value) for key, value in answers.items()])


def _converter_keys(given: Mapping[str, object]) -> list[ConfigKey]:
    """The settings of converters that the configuration names, but for what the worker sets."""
    keys: list[ConfigKey] = []
    for side in ("key", "value", "header"):
        kind = HEADER_CONVERTERS.get(str(given.get(f"{side}.converter")))
        if kind is not None:
            own = [key for key in kind.config if key.name != "converter.type"]
            keys += embedded(f"{side}.converter.", f"{side.capitalize()} converter", own)
    return keys


def _forget_unknown_classes(definition: ConfigDef, answers: dict[str, ConfigValue]) -> None:
    for key in definition:
        if key.type is ConfigType.CLASS and answers[key.name].errors:
            answers[key.name].value = None


def _check_negation(given: Mapping[str, str], answers: dict[str, ConfigValue]) -> None:
    for name in list(given):
        found = re.fullmatch(r"(transforms\..+)\.negate", name)
        if found is not None and f"{found[1]}.predicate" not in given:
            answers.setdefault(name, ConfigValue(name)).errors.append(
                f"Config '{name}' was provided but there is no config '{found[1]}.predicate' defining a "
                "predicate to be negated."
            )


def _check_source(
    connector: type[Connector],
    given: Mapping[str, str],
    answers: dict[str, ConfigValue],
    worker_exactly_once: bool,
) -> None:
    assert issubclass(connector, SourceConnector)
    support = answers["exactly.once.support"]
    wanted = str(support.value).upper() == "REQUIRED" and not support.errors
    if wanted and not worker_exactly_once:
        support.errors.append("This worker does not have exactly-once source support enabled.")
    if wanted and not connector.exactly_once(given):
        support.errors.append(
            "The connector does not support exactly-once semantics with the provided configuration."
        )
    boundary = answers["transaction.boundary"]
    chosen = str(boundary.value).upper() == "CONNECTOR" and not boundary.errors
    if chosen and not connector.defines_transactions(given):
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given "
            "configuration. Please reconfigure it to use a different transaction boundary definition."
        )


def _check_sink(
    connector: type[Connector], given: Mapping[str, str], answers: dict[str, ConfigValue]
) -> None:
    topics, expression = answers["topics"], answers["topics.regex"]
    names, regex = given.get("topics", "").strip(), given.get("topics.regex", "").strip()
    problem = None
    if not names and not regex:
        problem = "Must configure one of topics or topics.regex"
    elif names and regex:
        problem = "topics and topics.regex are mutually exclusive options, but both are set."
    if problem is not None:
        topics.errors.append(problem)
        expression.errors.append(problem)
    letters = given.get("errors.deadletterqueue.topic.name", "").strip()
    if not letters:
        return
    if isinstance(topics.value, list) and letters in topics.value:
        shown = ", ".join(topics.value)
        topics.errors.append(
            f"The DLQ topic '{letters}' may not be included in the list of topics ('topics=[{shown}]') "
            "consumed by the connector"
        )
    if regex and _matches(regex, letters):
        expression.errors.append(
            f"The DLQ topic '{letters}' may not be matched by the regex for the topics "
            f"('topics.regex={regex}') consumed by the connector"
        )


def _matches(regex: str, topic: str) -> bool:
    try:
        return compile_java(regex).fullmatch(topic) is not None
    except IllegalArgumentException:
        return False
