"""Kafka's group tools and ours side by side on one broker with live groups: the same lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.moldau_broker import MoldauBroker
from tests.conformance.golden_actors import group_members
from tests.conformance.kafka_tools import JavaTools, MoldauTools

FIXTURES = ("topics", "records", "g-empty", "consumer-protocol-groups")
COMMANDS = {
    "kafka-groups": (
        "--list",
        "--list --consumer",
        "--list --share",
        "--list --group-type classic",
        "--list --protocol consumer",
    ),
    "kafka-consumer-groups": (
        "--list --state --type",
        "--describe --all-groups",
        "--describe --all-groups --offsets --verbose",
        "--describe --all-groups --members --verbose",
        "--describe --all-groups --state --verbose",
    ),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools) -> Iterator[MoldauBroker]:
    directory = tmp_path_factory.mktemp("group-tools")
    with MoldauBroker(directory, {"group.initial.rebalance.delay.ms": "0"}) as running:
        made = java_tools.run_class("Fixtures", [running.bootstrap_servers, *FIXTURES])
        assert made.exit_code == 0, made.stderr
        with group_members(running.bootstrap_servers, directory):
            yield running


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(
            tool, marks=pytest.mark.check(f"moldau {tool}", "prints what Kafka's tool prints of live groups")
        )
        for tool in COMMANDS
    ],
)
def test_same_lines(tool: str, broker: MoldauBroker, java_tools: JavaTools, tmp_path: Path) -> None:
    for words in COMMANDS[tool]:
        arguments = ["--bootstrap-server", broker.bootstrap_servers, *words.split()]
        theirs = java_tools.run(tool, arguments)
        ours = MoldauTools(tmp_path).run(tool, arguments)
        assert (theirs.exit_code, theirs.stderr) == (ours.exit_code, ours.stderr), words
        assert sorted(theirs.stdout.splitlines()) == sorted(ours.stdout.splitlines()), words
