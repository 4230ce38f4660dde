"""The JSON of kafka-log-dirs."""

from typing import Any

import pytest

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.log_dirs import describe_json, parse_brokers
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import LogDir, ReplicaInfo
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.testing import Broker
from tests.cli.kafka_tools.conftest import run


def test_json() -> None:
    replicas = {("solo", 0): ReplicaInfo(7, 0, False), ("orders", 1): ReplicaInfo(8, 2, True)}
    brokers = {1: [LogDir("DATA", 0, replicas)], 2: [LogDir("BAD", 56, {})]}
    assert describe_json(brokers, ["solo"]) == (
        '{"brokers":[{"broker":1,"logDirs":[{"partitions":[{"partition":"solo-0","size":7,"offsetLag":0,'
        '"isFuture":false}],"error":null,"logDir":"DATA"}]},{"broker":2,"logDirs":[{"partitions":[],'
        '"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"BAD"}]}],"version":1}'
    )
    assert '"partition":"orders-1","size":8,"offsetLag":2,"isFuture":true' in describe_json(brokers, [])


def test_brokers() -> None:
    assert parse_brokers("") == []
    assert parse_brokers("3,1,3") == [3, 1]
    with pytest.raises(ToolError, match='For input string: "a"'):
        parse_brokers("1,a")


def test_a_broker_that_does_not_answer_is_named_and_the_others_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has just died, and the controller does not know yet."""
    describe, silent = Admin.describe_log_dirs, [2]

    async def some_silent(admin: Admin, brokers: list[int]) -> Any:
        found = await describe(admin, [each for each in brokers if each not in silent])
        return found | dict.fromkeys(silent, BrokerNotAvailable("localhost:2: connection refused"))

    monkeypatch.setattr(Admin, "describe_log_dirs", some_silent)
    with Broker() as broker:
        words = ("--bootstrap-server", broker.bootstrap_servers, "--describe")
        result = run("kafka-log-dirs", *words)
        assert result.code == 1
        assert "ERROR: Broker 2 did not answer: localhost:2: connection refused" in result.stderr
        assert "Received log directory information from brokers 1" in result.stdout
        assert result.lines[-1].startswith('{"brokers":[{"broker":1,"logDirs":[{"partitions":[]')
        silent.append(1)
        assert run("kafka-log-dirs", *words).lines == ["Querying brokers for log directories information"]
