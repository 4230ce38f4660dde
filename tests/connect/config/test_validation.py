"""Configurations of connectors against the answers of a real worker."""

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.config.framework import SINK, SOURCE
from moldau.connect.config.providers import EnvironmentProvider
from moldau.connect.config.validation import definition_of, validate
from moldau.connect.connector import SourceConnector
from moldau.connect.connectors.catalogue import CONNECTORS
from moldau.connect.connectors.file.stream import FileStreamSink, FileStreamSource
from moldau.connect.connectors.jdbc.source import JdbcSource
from moldau.connect.plugins import Plugins
from tests.connect.transforms.test_catalogue import DEFINITIONS, shown

VECTORS = Path(__file__).parents[1] / "vectors"
CALLS: list[dict[str, Any]] = json.loads((VECTORS / "rest" / "calls.json").read_text())
PLUGINS = Plugins(CONNECTORS)
HEAD = "Connector configuration is invalid and contains the following "


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("framework source connector (configDef)", SOURCE),
        ("framework sink connector (configDef)", SINK),
        (FileStreamSource.class_name, FileStreamSource.config),
        (FileStreamSink.class_name, FileStreamSink.config),
    ],
)
def test_settings_of_connectors_are_those_of_apache(name: str, ours: Any) -> None:
    assert [shown(key) for key in ours] == DEFINITIONS[name]


def validations() -> list[dict[str, Any]]:
    def wanted(call: dict[str, Any]) -> bool:
        path = call["request"]["path"]
        return path.endswith("/config/validate") and call["status"] == 200 and "Mirror" not in path

    return [call for call in CALLS if wanted(call)]


@pytest.mark.parametrize("call", validations(), ids=lambda call: call["note"])
def test_validations(call: dict[str, Any]) -> None:
    connector = PLUGINS.connector(call["request"]["body"]["connector.class"])
    assert connector is not None
    answer = validate(connector, call["request"]["body"]).answer()
    expected = call["body"]
    assert {key: answer[key] for key in ("name", "error_count", "groups")} == {
        key: expected[key] for key in ("name", "error_count", "groups")
    }
    names = expected["configs_note"].partition("all names: ")[2].split(", ")
    assert [entry["value"]["name"] for entry in answer["configs"]] == names
    ours = {entry["value"]["name"]: entry for entry in answer["configs"]}
    for entry in expected["configs"]:
        found = ours[entry["value"]["name"]]
        assert found["value"] == entry["value"]
        assert {**found["definition"], "documentation": "<text>"} == entry["definition"]


def refusals() -> list[dict[str, Any]]:
    def wanted(call: dict[str, Any]) -> bool:
        request = call["request"]
        message = call["body"].get("message", "") if isinstance(call["body"], dict) else ""
        return request["method"] == "POST" and request["path"] == "/connectors" and message.startswith(HEAD)

    return [call for call in CALLS if wanted(call)]


@pytest.mark.parametrize("call", refusals(), ids=lambda call: call["note"])
def test_what_is_refused_and_how(call: dict[str, Any]) -> None:
    body = call["request"]["body"]
    connector = PLUGINS.connector(body["config"]["connector.class"])
    assert connector is not None
    config = {**body["config"], "name": (body.get("name") or "").strip()}
    assert validate(connector, config).refusal() == call["body"]["message"]


def test_there_is_something_to_compare() -> None:
    assert len(validations()) >= 8
    assert len(refusals()) >= 25


def test_the_definition_of_a_connector_has_both_parts() -> None:
    names = [key.name for key in definition_of(FileStreamSource)]
    assert names[0] == "name"
    assert names[-3:] == ["file", "topic", "batch.size"]


LINES = {"connector.class": "FileStreamSource", "name": "v", "file": "x.txt", "topic": "x-t"}


def errors_of(given: dict[str, str], worker: bool = True) -> dict[str, list[str]]:
    connector = PLUGINS.connector(given["connector.class"])
    assert connector is not None
    answer = validate(connector, given, worker).answer()
    values = [entry["value"] for entry in answer["configs"]]
    return {value["name"]: value["errors"] for value in values if value["errors"]}


def test_exactly_once_is_required_of_worker_and_connector() -> None:
    required = {**LINES, "exactly.once.support": "Required"}
    assert errors_of(required) == {}
    assert errors_of(LINES, worker=False) == {}
    worker = "This worker does not have exactly-once source support enabled."
    assert errors_of(required, worker=False) == {"exactly.once.support": [worker]}
    connector = "The connector does not support exactly-once semantics with the provided configuration."
    del required["file"]
    assert errors_of(required, worker=False) == {"exactly.once.support": [worker, connector]}


@pytest.mark.parametrize(
    ("mode", "supported"),
    [("bulk", False), ("incrementing", True), ("timestamp", False), ("timestamp+incrementing", True)],
)
def test_tables_are_read_exactly_once_where_a_place_names_one_row(mode: str, supported: bool) -> None:
    connector = PLUGINS.connector("JdbcSourceConnector")
    assert connector is not None
    assert issubclass(connector, SourceConnector)
    assert connector.exactly_once({"mode": mode}) == supported


def test_short_names_and_what_the_worker_has() -> None:
    """As a real worker of 4.3 answers."""
    string, simple = "storage.StringConverter", "storage.SimpleHeaderConverter"
    worker = {"key": "Json", "value": f"org.apache.kafka.connect.{string}", "header": "Simple"}
    config = {
        "name": "v",
        "connector.class": "FileStreamSource",
        "topic": "t",
        "value.converter": "LongConverter",
    }
    config |= {"transforms": "r", "transforms.r.type": "RegexRouter"}
    config |= {"transforms.r.regex": "a", "transforms.r.replacement": "b"}
    answer = validate(FileStreamSource, config, worker_converters=worker).answer()
    assert answer["error_count"] == 0
    shown = {each["value"]["name"]: each for each in answer["configs"]}
    package = "org.apache.kafka.connect"
    for name, value in (
        ("key.converter", f"{package}.json.JsonConverter"),
        ("value.converter", f"{package}.converters.LongConverter"),
        ("header.converter", f"{package}.{simple}"),
        ("connector.plugin.version", "4.3.0"),
        ("key.converter.plugin.version", "4.3.0"),
        ("transforms.r.type", f"{package}.transforms.RegexRouter"),
    ):
        assert shown[name]["value"]["value"] == value
    assert shown["value.converter"]["definition"]["default_value"] == f"{package}.{string}"
    assert f"{package}.json.JsonConverter" in shown["key.converter"]["value"]["recommended_values"]


def test_what_is_told_of_a_validation_only() -> None:
    config = {"name": "v", "connector.class": "FileStreamSink", "topics": "a,a"}
    assert validate(FileStreamSink, config).errors == [
        "Configuration 'topics' values must not be duplicated."
    ]
    old = {**config, "topics": "a", "connector.plugin.version": "1.0"}
    assert validate(FileStreamSink, old).errors == 2 * [
        f"Plugin {FileStreamSink.class_name} not found that matches the version range [1.0,1.0], available "
        "versions: [4.3.0]"
    ]
    json = {"value.converter": "Json", "value.converter.schemas.enable": "x"}
    found = validate(FileStreamSink, {**config, "topics": "a", **json})
    assert found.errors == [
        "Invalid value x for configuration schemas.enable: Expected value to be either true or false"
    ]
    assert found.groups[-2:] == ["Serialization", "Schemas"]


def test_what_providers_give_is_checked_and_never_shown() -> None:
    values = {"TASKS": "many-of-them", "TOPIC": "orders", "URL": "jdbc:sqlite:/hidden/away.db"}
    providers = {"env": EnvironmentProvider({}, values)}
    config = {"name": "v", "connector.class": "FileStreamSource", "file": "f", "topic": "${env:TOPIC}"}
    tasks = "tasks.max"
    found = validate(FileStreamSource, {**config, tasks: "${env:TASKS}"}, providers=providers)
    values_by_name = {value.name: value for _, value in found.entries}
    assert values_by_name["topic"].value == "${env:TOPIC}"
    assert values_by_name[tasks].errors[0] == (
        "Invalid value ${env:TASKS} for configuration tasks.max: Not a number of type INT"
    )
    assert not any(value in str(found.answer()) for value in values.values())
    jdbc = {"name": "j", "connector.class": "JdbcSource", "mode": "bulk", "topic.prefix": "t"}
    assert validate(JdbcSource, {**jdbc, "connection.url": "${env:URL}"}, providers=providers).errors == []
