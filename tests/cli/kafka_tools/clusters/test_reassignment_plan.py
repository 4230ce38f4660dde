"""Plans of kafka-reassign-partitions, with the messages of Kafka's tool."""

import pytest

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.clusters.reassignment_plan import (
    move_line,
    parse_brokers,
    parse_plan,
    parse_topics,
    plan_text,
    throttled_replicas,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.client.admin.replicas import Move

MV0, MV1 = TopicPartition("mv", 0), TopicPartition("mv", 1)


def test_a_plan_and_its_text() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[2,3],"log_dirs":["any","any"]},'
        '{"topic":"mv","partition":1,"replicas":[3,2],"log_dirs":["any","any"]}]}'
    )
    plan = parse_plan(text)
    assert plan == {MV0: (2, 3), MV1: (3, 2)}
    assert plan_text(plan) == text
    assert '"log_dirs":["DATA2","any"]' in plan_text({MV0: (2, 3)}, {(MV0, 2): "DATA2"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "The input string is not a valid JSON"),
        ('{"version":2}', "Not supported version field value 2"),
        ('{"version":1,"partitions":[]}', "Partition reassignment list cannot be empty"),
        (
            '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[]}]}',
            "Partition replica list cannot be empty",
        ),
        (
            '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[1,1]}]}',
            "Partition replica lists may not contain duplicate entries: mv-0 contains multiple entries for 1",
        ),
        (
            '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[1]},'
            '{"topic":"mv","partition":0,"replicas":[2]}]}',
            "Partition reassignment contains duplicate topic partitions: mv-0",
        ),
        (
            '{"version":1,"partitions":[{"topic":"mv","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}',
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition mv-0",
        ),
    ],
)
def test_plans_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ToolError) as error:
        parse_plan(text)
    assert error.value.message == message


def test_topics_and_brokers() -> None:
    assert parse_topics('{"topics":[{"topic":"mv"},{"topic":"big"}],"version":1}') == ["mv", "big"]
    assert parse_brokers("1,2,3") == [1, 2, 3]
    with pytest.raises(ToolError) as error:
        parse_brokers("1,1,2")
    assert error.value.message == "Broker list contains duplicate entries: [1]"
    with pytest.raises(ToolError):
        parse_topics('{"topics":[]}')


def test_a_move() -> None:
    assert move_line(MV0, Move((3, 2, 1), (3,), (1,))) == "mv-0: replicas: 3,2,1. adding: 3. removing: 1."
    assert move_line(MV0, Move((3, 2), (3,), ())) == "mv-0: replicas: 3,2. adding: 3."


def test_what_a_throttle_covers() -> None:
    throttled = throttled_replicas({MV0: (2, 3), MV1: (3, 2)}, {MV0: (1, 2), MV1: (1, 3)})
    assert throttled == {
        "mv": {
            "leader.replication.throttled.replicas": "0:2,0:3,1:2,1:3",
            "follower.replication.throttled.replicas": "0:1,1:1",
        }
    }
