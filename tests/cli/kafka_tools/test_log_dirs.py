"""The JSON of kafka-log-dirs."""

import pytest

from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.log_dirs import describe_json, parse_brokers
from moldau.client.admin.descriptions import LogDir, ReplicaInfo


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
