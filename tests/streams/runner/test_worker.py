"""Orders carried out in this process: state in memory, state from the topic, batches that are done again."""

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.spark.background_loop import connect
from moldau.spark.write.exactly_once import end_all
from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder, StreamsError
from moldau.streams.runner.application import StreamsOptions, prepared
from moldau.streams.runner.orders import Application, Done, Order, TaskOrder, place_of
from moldau.streams.runner.programs import program_of
from moldau.streams.runner.worker import Worker, read_state
from moldau.testing import Broker

pytest.importorskip("pyspark")
TEXTS = Consumed.with_(Serdes.string(), Serdes.string())


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def counting(broker: Broker) -> Application:
    builder = StreamsBuilder()
    counts = builder.stream("in", TEXTS).group_by_key().count("counts")
    counts.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.long()))
    broker.create_topic("in", 1)
    return prepared(program_of(builder, "counting"), "app", StreamsOptions(broker.bootstrap_servers), 1)


def order(application: Application, before: dict[str, int], after: dict[str, int], attempt: int = 0) -> Order:
    places = [{TopicPartition(topic, 0): at for topic, at in each.items()} for each in (before, after)]
    task = TaskOrder(0, 0, place_of(places[0], 0), place_of(places[1], 0))
    return Order(application, f"moldau-{application.query}-0-{attempt}", (task,))


def ended(application: Application, done: Done, *, commit: bool) -> Done:
    loop = connect(application.cluster)
    loop.run(end_all(loop.cluster, [done.part] if done.part else [], commit=commit))
    return done


def values(broker: Broker, application: Application) -> list[int]:
    from moldau.spark import topic

    rows = topic("out", broker.bootstrap_servers).arrow().column("value").to_pylist()
    return [int.from_bytes(value, "big") for value in rows]


@pytest.mark.slow
def test_state_is_kept_in_memory_and_in_the_topic(broker: Broker) -> None:
    application = counting(broker)
    for _ in range(4):
        broker.produce("in", "x", key="a")
    worker = Worker()
    first = ended(application, worker.run(order(application, {"in": 0}, {"in": 2})), commit=True)
    second = ended(application, worker.run(order(application, {"in": 2}, {"in": 3})), commit=True)
    third = ended(application, Worker().run(order(application, {"in": 3}, {"in": 4})), commit=True)
    assert [each.restored for each in (first, second, third)] == [1, 0, 1]
    assert values(broker, application) == [1, 2, 3, 4]
    saved = read_state(application, 0, 0)
    assert saved is not None
    assert saved.state.stores["counts"].rows["a"][0] == 4


def test_only_the_last_update_of_a_batch_where_that_is_wanted(broker: Broker) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", TEXTS)
    to = Produced.with_(Serdes.string(), Serdes.long())
    stream.group_by_key().count("counts").to_stream().filter(lambda count: count != 4).to("out", to)
    stream.map_values(int).to("plain", to)
    broker.create_topic("in", 1)
    options = StreamsOptions(broker.bootstrap_servers, updates="last")
    application = prepared(program_of(builder, "counting"), "app", options, 1)
    for key in "aababa":
        broker.produce("in", "7", key=key)
    worker = Worker()
    first = ended(application, worker.run(order(application, {"in": 0}, {"in": 5})), commit=True)
    ended(application, worker.run(order(application, {"in": 5}, {"in": 6})), commit=True)
    assert values(broker, application) == [3, 2]  # the fourth of a does not pass
    assert first.counts.records_out == 2 + 5
    assert len(broker.records("plain", 0)) == 6
    saved = read_state(application, 0, 0)
    assert saved is not None
    assert saved.state.stores["counts"].rows["a"][0] == 4


def test_a_batch_that_was_not_decided_is_done_again(broker: Broker) -> None:
    application = counting(broker)
    for _ in range(3):
        broker.produce("in", "x", key="a")
    worker = Worker()
    ended(application, worker.run(order(application, {"in": 0}, {"in": 2})), commit=False)
    ended(application, worker.run(order(application, {"in": 0}, {"in": 2}, 1)), commit=True)
    ended(application, worker.run(order(application, {"in": 2}, {"in": 3})), commit=True)
    assert values(broker, application) == [1, 2, 3]


def test_a_batch_that_was_decided_does_nothing_again(broker: Broker) -> None:
    application = counting(broker)
    broker.produce("in", "x", key="a")
    ended(application, Worker().run(order(application, {"in": 0}, {"in": 1})), commit=True)
    again = Worker().run(order(application, {"in": 0}, {"in": 1}, 1))
    assert (again.part, again.counts.records_out) == (None, 0)


def test_a_state_that_stands_elsewhere_is_refused(broker: Broker) -> None:
    application = counting(broker)
    for _ in range(3):
        broker.produce("in", "x", key="a")
    ended(application, Worker().run(order(application, {"in": 0}, {"in": 1})), commit=True)
    with pytest.raises(StreamsError, match="moldau streams reset app"):
        Worker().run(order(application, {"in": 2}, {"in": 3}))


def test_a_failure_leaves_nothing_behind(broker: Broker) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", TEXTS).map_values(int)
    numbers.to("out", Produced.with_(Serdes.string(), Serdes.long()))
    broker.create_topic("in", 1)
    options = StreamsOptions(broker.bootstrap_servers)
    application = prepared(program_of(builder, "numbers"), "app", options, 1)
    for value in ("1", "two"):
        broker.produce("in", value, key="a")
    with pytest.raises(StreamsError, match="Exception caught in process"):
        Worker().run(order(application, {"in": 0}, {"in": 2}))
    assert values(broker, application) == []


def test_global_tables_are_read_again_where_a_task_is_made_anew(broker: Broker) -> None:
    builder = StreamsBuilder()
    products = builder.global_table("products", "products-store", TEXTS)
    orders = builder.stream("in", TEXTS)
    joined: Any = orders.join(products, lambda order, product: int(product), key=lambda order: order)
    joined.to("out", Produced.with_(Serdes.string(), Serdes.long()))
    for name in ("in", "products"):
        broker.create_topic(name, 1)
    options = StreamsOptions(broker.bootstrap_servers)
    application = prepared(program_of(builder, "orders"), "app", options, 1)
    broker.produce("products", "7", key="p")
    for _ in range(2):
        broker.produce("in", "p", key="a")
    both = [{"in": 0, "products": 0}, {"in": 1, "products": 1}, {"in": 2, "products": 1}]
    ended(application, Worker().run(order(application, both[0], both[1])), commit=True)
    ended(application, Worker().run(order(application, both[1], both[2])), commit=True)
    assert values(broker, application) == [7, 7]


def test_a_topic_that_was_cut_makes_the_others_wait(broker: Broker) -> None:
    """The order of two topics is that of their times, wherever a batch ends."""
    builder = StreamsBuilder()
    merged = builder.stream("in", TEXTS).merge(builder.stream("other", TEXTS))
    merged.map_values(int).to("out", Produced.with_(Serdes.string(), Serdes.long()))
    for name in ("in", "other"):
        broker.create_topic(name, 1, {"retention.ms": -1})
    options = StreamsOptions(broker.bootstrap_servers)
    application = prepared(program_of(builder, "merging"), "app", options, 1)
    for time in (1, 3, 5):
        broker.produce("in", str(time), key="a", timestamp_ms=time)
    for time in (2, 4, 6):
        broker.produce("other", str(time), key="a", timestamp_ms=time)
    worker = Worker()
    first = order(application, {"in": 0, "other": 0}, {"in": 1, "other": 3})
    cut = TaskOrder(0, 0, first.tasks[0].before, first.tasks[0].after, (TopicPartition("in", 0),))
    done = ended(application, worker.run(Order(application, first.transactional_id, (cut,))), commit=True)
    assert done.positions == {TopicPartition("in", 0): 1, TopicPartition("other", 0): 0}
    rest = order(application, {"in": 1, "other": 3}, {"in": 3, "other": 3})
    ended(application, Worker().run(rest), commit=True)  # made anew: how far it was is saved
    assert values(broker, application) == [1, 2, 3, 4, 5, 6]
