"""A configuration of a connector, checked as a whole: every setting with its definition, value and errors.

Invariant: a secret is shown as ``[hidden]``; what was wrong with one setting never hides another.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, ConfigValue, value_text
from moldau.connect.config.enrichment import Names, embedded, predicate_keys, transform_keys
from moldau.connect.config.framework import SINK, SOURCE
from moldau.connect.config.providers import ConfigProvider, hidden, resolved
from moldau.connect.config.regex import compile_java
from moldau.connect.connector import Connector, SourceConnector
from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS, full_name
from moldau.connect.errors import IllegalArgumentException
from moldau.connect.transforms.catalogue import full_name as full_transform_name

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


def validate(
    connector: type[Connector],
    given: Given,
    worker_exactly_once: bool = True,
    providers: Mapping[str, ConfigProvider] = MappingProxyType({}),
    worker_converters: Mapping[str, str] = MappingProxyType({}),
) -> Validation:
    """``worker_exactly_once``: whether the worker lets sources write in transactions. What ``providers`` give
    is checked and never shown: the answer has the references to it. ``worker_converters`` are the classes
    that the worker has for keys, values and headers."""
    secrets: dict[str, str] = {}
    written = {name: value for name, value in given.items() if value is not None}
    known = resolved(written, providers, secrets)
    base = ConfigDef(
        *(
            _as_here(key, connector, worker_converters)
            for key in (SOURCE if connector.kind == "source" else SINK)
        )
    )
    extra = [*transform_keys(known), *predicate_keys(known)]
    definition = ConfigDef(*base, *extra, *connector.config, *_converter_keys(known))
    answers = {value.name: value for value in definition.validate(known)}
    _forget_unknown_classes(definition, answers)
    _check_version(connector, known, answers)
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
    for answer in answers.values():
        if known.get(answer.name) != written.get(answer.name):
            answer.value = written[answer.name]
        answer.errors = [hidden(error, secrets) for error in answer.errors]
    name = str(known.get("connector.class", connector.class_name))
    converters = _converter_keys(known)
    groups = ConfigDef(*base, *extra, *connector.config).groups()
    groups += sorted({key.group for key in converters if key.group is not None} - {*groups}, reverse=True)
    return Validation(name, groups, [(definition.key(key), value) for key, value in answers.items()])


def _as_here(key: ConfigKey, connector: type[Connector], converters: Mapping[str, str]) -> ConfigKey:
    """A setting with the default that it has on this worker."""
    side = key.name.partition(".")[0]
    default, offered = key.default, None
    if key.name == f"{side}.converter" and side in converters:
        known = HEADER_CONVERTERS if side == "header" else CONVERTERS
        default, offered = full_name(converters[side], side), sorted(known)
    elif key.name.endswith(".plugin.version") and converters:
        default, offered = connector.version, [connector.version]
    return key if offered is None else replace(key, default=default, recommender=Names(tuple(offered)))


def _converter_keys(given: Mapping[str, object]) -> list[ConfigKey]:
    """The settings of converters that the configuration names, but for what the worker sets."""
    keys: list[ConfigKey] = []
    for side in ("key", "value", "header"):
        kind = HEADER_CONVERTERS.get(full_name(str(given.get(f"{side}.converter")), side))
        if kind is not None:
            own = [replace(key, default=side) if key.name == "converter.type" else key for key in kind.config]
            keys += [
                replace(key, group=before.group, order=before.order, known_as=before.name)
                for key, before in zip(embedded(f"{side}.converter.", "", own), own, strict=True)
            ]
    return keys


def _forget_unknown_classes(definition: ConfigDef, answers: dict[str, ConfigValue]) -> None:
    for key in definition:
        answer = answers[key.name]
        if key.type is ConfigType.CLASS and any("could not be found" in each for each in answer.errors):
            answer.value = None
            version = answers.get(f"{key.name.removesuffix('.type')}.plugin.version")
            if version is not None:
                version.value = None
        elif key.name.endswith(".converter") and isinstance(answer.value, str):
            answer.value = full_name(answer.value, key.name.removesuffix(".converter"))
        elif key.name.endswith(".type") and isinstance(answer.value, str):
            answer.value = full_transform_name(answer.value)


def _check_version(
    connector: type[Connector], given: Mapping[str, str], answers: dict[str, ConfigValue]
) -> None:
    """A version that is asked for has to be the one there is; ranges are not looked into."""
    wanted = given.get("connector.plugin.version")
    if wanted is None or wanted.strip() in (connector.version, "latest") or wanted.strip()[:1] in ("[", "("):
        return
    problem = (
        f"Plugin {connector.class_name} not found that matches the version range "
        f"[{wanted.strip()},{wanted.strip()}], available versions: [{connector.version}]"
    )
    for name in ("connector.class", "connector.plugin.version"):
        answers[name].errors.append(problem)


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
