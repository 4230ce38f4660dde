"""How a source learns the name of its query: what a task says of it, and what the driver makes of that."""

from collections.abc import Iterator

import pytest

from moldau.base.names import TopicPartition
from moldau.client.groups.groups import Groups
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.spark.background_loop import open_loop
from moldau.spark.options import ClusterOptions
from moldau.spark.query.name import Query, QueryName, answer, query_of_job
from moldau.testing import Broker

PARTITION = TopicPartition("t", 0)
COUNTS = Query("an-id", "counts of words")


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    with Broker() as broker:
        broker.create_topic("t")
        loop = open_loop(ClusterOptions(broker.bootstrap_servers))
        yield loop
        loop.close()


def groups(loop: BackgroundLoop) -> list[str]:
    return [group.group_id for group in loop.run(Groups(loop.cluster).list())]


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


def test_a_task_answers_and_the_driver_learns(loop: BackgroundLoop) -> None:
    driver = QueryName(loop)
    assert driver.known == Query()
    question = driver.question()
    assert question is not None
    answer(loop, question, COUNTS, PARTITION, 0)
    assert driver.learn()
    assert driver.known == COUNTS
    assert driver.question() is None, "it asks once in a run"
    assert len(groups(loop)) == 1, "until it stands in the checkpoint"
    driver.resume(driver.text)
    assert groups(loop) == [], "nothing is left of it"


def test_a_query_without_a_name(loop: BackgroundLoop) -> None:
    driver = QueryName(loop)
    question = driver.question()
    assert question is not None
    answer(loop, question, Query("an-id"), PARTITION, 0)
    assert not driver.learn()
    assert driver.known == Query("an-id")


def test_the_checkpoint_keeps_what_was_learned(loop: BackgroundLoop) -> None:
    first = QueryName(loop)
    question = first.question()
    assert question is not None
    answer(loop, question, COUNTS, PARTITION, 0)
    first.learn()
    second = QueryName(loop)
    second.resume(first.text)
    assert second.known == COUNTS
    assert second.text == first.text
    first.resume(first.text)
    again = second.question()
    assert again is not None
    answer(loop, again, COUNTS, PARTITION, 0)
    assert groups(loop) == [], "who knows is told nothing"
    answer(loop, again, Query("an-id", "renamed"), PARTITION, 0)
    assert second.learn()
    assert second.known.name == "renamed"


def test_an_answer_that_its_driver_did_not_live_to_hear(loop: BackgroundLoop) -> None:
    first = QueryName(loop)
    question = first.question()
    assert question is not None
    answer(loop, question, COUNTS, PARTITION, 0)
    second = QueryName(loop)
    second.resume(first.text)
    assert second.known == COUNTS
