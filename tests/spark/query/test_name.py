"""How a source learns the name of its query: what a task says of it, and what the driver makes of that."""

from collections.abc import Iterator

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups.groups import Groups
from moldau.spark.options import ClusterOptions
from moldau.spark.query.name import Query, QueryName, answer, query_of_job
from moldau.spark.wire import Wire
from moldau.testing import Broker

PARTITION = TopicPartition("t", 0)
COUNTS = Query("an-id", "counts of words")


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Broker() as broker:
        broker.create_topic("t")
        wire = Wire(ClusterOptions(broker.bootstrap_servers))
        yield wire
        wire.close()


def groups(wire: Wire) -> list[str]:
    return [group.group_id for group in wire.ask(Groups(wire.cluster).list())]


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("counts\nid = an-id\nrunId = 7\nbatch = 0", "counts"),
        ("two words\nid = an-id\nrunId = 7\nbatch = init", "two words"),
        ("id = an-id\nrunId = 7\nbatch = 0", ""),
        ("counts<br/>id = an-id<br/>runId = 7<br/>batch = 0", "counts"),
        ("something that a user has set", ""),
        (None, ""),
    ],
)
def test_what_spark_says_of_a_job(description: str | None, name: str) -> None:
    assert query_of_job("an-id", description) == Query("an-id", name)
    assert query_of_job(None, description) == Query()


def test_a_task_answers_and_the_driver_learns(wire: Wire) -> None:
    driver = QueryName(wire)
    assert driver.known == Query()
    question = driver.question()
    assert question is not None
    answer(wire, question, COUNTS, PARTITION, 0)
    assert driver.learn()
    assert driver.known == COUNTS
    assert driver.question() is None, "it asks once in a run"
    assert len(groups(wire)) == 1, "until it stands in the checkpoint"
    driver.resume(driver.text)
    assert groups(wire) == [], "nothing is left of it"


def test_a_query_without_a_name(wire: Wire) -> None:
    driver = QueryName(wire)
    question = driver.question()
    assert question is not None
    answer(wire, question, Query("an-id"), PARTITION, 0)
    assert not driver.learn()
    assert driver.known == Query("an-id")


def test_the_checkpoint_keeps_what_was_learned(wire: Wire) -> None:
    first = QueryName(wire)
    question = first.question()
    assert question is not None
    answer(wire, question, COUNTS, PARTITION, 0)
    first.learn()
    second = QueryName(wire)
    second.resume(first.text)
    assert second.known == COUNTS
    assert second.text == first.text
    first.resume(first.text)
    again = second.question()
    assert again is not None
    answer(wire, again, COUNTS, PARTITION, 0)
    assert groups(wire) == [], "who knows is told nothing"
    answer(wire, again, Query("an-id", "renamed"), PARTITION, 0)
    assert second.learn()
    assert second.known.name == "renamed"


def test_an_answer_that_its_driver_did_not_live_to_hear(wire: Wire) -> None:
    first = QueryName(wire)
    question = first.question()
    assert question is not None
    answer(wire, question, COUNTS, PARTITION, 0)
    second = QueryName(wire)
    second.resume(first.text)
    assert second.known == COUNTS
