"""kafka-streams-application-reset: what it shows, what it does, what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from moldau.testing import Broker

TOOL = "kafka-streams-application-reset"


@pytest.fixture
def application(broker: Broker) -> Broker:
    broker.create_topic("in", 2)
    for topic in ("app-counts-changelog", "app-counts-repartition", "app-out", "apple-counts-changelog"):
        broker.create_topic(topic)
    for partition in (0, 1):
        broker.produce("in", "x", partition=partition)
    return broker


def test_a_dry_run_changes_nothing(application: Broker, tool_at: Callable[..., Any]) -> None:
    shown = tool_at(TOOL, "--application-id", "app", "--input-topics", "in", "--dry-run")
    assert shown.code == 0, shown.stderr
    assert shown.lines[0].startswith("----Dry run")
    assert "Topic: in Partition: 1 Offset: 0" in shown.lines
    assert "Deleting inferred internal topics [app-counts-changelog, app-counts-repartition]" in shown.lines
    assert "app-counts-changelog" in application.topics()


def test_topics_go_and_the_group_goes_back(application: Broker, tool_at: Callable[..., Any]) -> None:
    done = tool_at(TOOL, "--application-id", "app", "--input-topics", "in", "--to-latest")
    assert done.code == 0, done.stderr
    assert "Topic: in Partition: 0 Offset: 1" in done.lines
    left = [topic for topic in application.topics() if not topic.startswith("__")]
    assert left == ["app-out", "apple-counts-changelog", "in"]
    described = tool_at("kafka-consumer-groups", "--describe", "--group", "app")
    assert "in" in described.stdout


def test_only_named_topics_go(application: Broker, tool_at: Callable[..., Any]) -> None:
    done = tool_at(TOOL, "--application-id", "app", "--internal-topics", "app-counts-changelog")
    assert "No input or intermediate topics specified. Skipping seek." in done.lines
    assert "app-counts-repartition" in application.topics()
    refused = tool_at(TOOL, "--application-id", "app", "--internal-topics", "app-out")
    assert refused.code == 1
    assert "app-out" in application.topics()


def test_an_application_must_be_named(application: Broker, tool_at: Callable[..., Any]) -> None:
    assert tool_at(TOOL, "--input-topics", "in").code == 1
