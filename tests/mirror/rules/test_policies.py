"""Names of topics, as Kafka's own policies answered for a list of them."""

import re
from pathlib import Path

import pytest

from moldau.mirror.rules.policies import ReplicationPolicy, policy_named

CAPTURED = (Path(__file__).parents[2] / "data" / "mirror" / "policies.txt").read_text()
_LINE = re.compile(
    r"(?P<topic>\S+): formatRemoteTopic\(A\)=(?P<remote>\S*) topicSource=(?P<source>\S*) "
    r"upstreamTopic=(?P<upstream>\S*) originalTopic=(?P<original>\S*) internal=(?P<internal>\S+) "
    r"heartbeats=(?P<heartbeats>\S+) checkpoints=(?P<checkpoints>\S+) mm2internal=(?P<mm2>\S+)"
)


def captured(policy: str) -> list[dict[str, str]]:
    section = CAPTURED.split(f"== {policy}\n")[1].split("==")[0]
    return [found.groupdict() for line in section.splitlines() if (found := _LINE.fullmatch(line))]


@pytest.mark.parametrize("name", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_every_name_is_answered_as_kafka_does(name: str) -> None:
    policy = policy_named(name, "A")
    cases = captured(name)
    assert len(cases) == 14
    for case in cases:
        topic = case["topic"]
        answered = {
            "topic": topic,
            "remote": policy.remote_topic("A", topic),
            "source": _text(policy.topic_source(topic)),
            "upstream": _text(policy.upstream_topic(topic)),
            "original": policy.original_topic(topic),
            "internal": _text(policy.is_internal(topic)),
            "heartbeats": _text(policy.is_heartbeats(topic)),
            "checkpoints": _text(policy.is_checkpoints(topic)),
            "mm2": _text(policy.is_mm2_internal(topic)),
        }
        assert answered == case


def _text(value: str | bool | None) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else value


def test_the_topics_of_the_mirror_itself() -> None:
    policy = ReplicationPolicy()
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    dashed = ReplicationPolicy(separator="-")
    assert dashed.remote_topic("A", "orders") == "A-orders"
    assert dashed.topic_source("my-topic") == "my"
    assert dashed.offset_syncs_topic("B") == "mm2-offset-syncs-B-internal"
    assert dashed.checkpoints_topic("A") == "A-checkpoints-internal"
    plain = ReplicationPolicy(separator="-", internal_separator_enabled=False)
    assert plain.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert plain.checkpoints_topic("A") == "A.checkpoints.internal"


def test_a_topic_that_came_from_the_target_does_not_go_back() -> None:
    policy = ReplicationPolicy()
    assert policy.would_loop("B.orders", "B")
    assert policy.would_loop("C.B.orders", "B"), "through another cluster as well"
    assert not policy.would_loop("C.orders", "B")
    assert not policy.would_loop("orders", "B")
    assert policy.remote_topic("A", "C.user") == "A.C.user"


def test_a_policy_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="DefaultReplicationPolicy"):
        policy_named("com.example.OwnPolicy", "A")
