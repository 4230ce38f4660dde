"""How topics of a source are made: the first group that a topic belongs to, else the default one."""

import pytest

from moldau.connect.errors import ConfigException
from moldau.connect.worker.tasks.topic_creation import TopicCreation

GROUPS = {
    "topic.creation.groups": "states, logs, default",
    "topic.creation.default.partitions": "6",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.default.cleanup.policy": "delete",
    "topic.creation.states.include": r"state-.*, table\..*",
    "topic.creation.states.exclude": "state-old.*",
    "topic.creation.states.cleanup.policy": "compact",
    "topic.creation.logs.include": ".*log.*",
    "topic.creation.logs.partitions": "1",
    "topic.creation.logs.replication.factor": "-1",
}


def test_the_first_group_of_a_topic_decides() -> None:
    creation = TopicCreation.of(GROUPS)

    def of(topic: str) -> tuple[int, int, dict[str, str]]:
        group = creation.group_of(topic)
        return group.partitions, group.replicas, dict(group.configs)

    # Numbers come from the default group, its other settings do not.
    assert of("state-log") == of("table.x") == (6, 3, {"cleanup.policy": "compact"})
    assert of("state-old-log") == of("a-log") == (1, -1, {})
    assert of("else") == of("tablex") == (6, 3, {"cleanup.policy": "delete"})
    assert TopicCreation.of({}).group_of("any").partitions == -1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic.creation.logs.include": None}, '"topic.creation.logs.include" which has no default value'),
        ({"topic.creation.logs.include": "("}, "topic.creation.logs.include: Invalid regex"),
        ({"topic.creation.logs.partitions": "x"}, "logs.partitions: Not a number of type INT"),
        ({"topic.creation.default.partitions": "0"}, "Number of partitions must be positive"),
        ({"topic.creation.default.replication.factor": "-2"}, "Replication factor must be positive"),
    ],
)
def test_what_is_refused(change: dict[str, str | None], said: str) -> None:
    given = {name: value for name, value in {**GROUPS, **change}.items() if value is not None}
    with pytest.raises(ConfigException) as raised:
        TopicCreation.of(given)
    assert said in raised.value.message
