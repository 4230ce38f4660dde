"""Which tasks an application has, and which topics it makes."""

import pytest

from moldau.streams import Serdes, StreamsBuilder, TopologyError
from moldau.streams.runner.layout import laid_out, source_topics
from moldau.streams.topology.topology import Topology


def word_count() -> Topology:
    builder = StreamsBuilder(Serdes.string(), Serdes.string())
    words = builder.stream("lines").flat_map_values(str.split)
    words.group_by(lambda word: word).count("counts").to_stream().to("out")
    return builder.build()


def test_a_program_of_one_partition_is_one_task() -> None:
    layout = laid_out(word_count(), "app", {"lines": 1})
    (group,) = layout.groups
    assert layout.in_memory
    assert (group.topics, group.tasks, group.state_topic) == (("lines",), 1, "app-tasks-0-changelog")
    assert [topic.name for topic in layout.internal_topics] == ["app-tasks-0-changelog"]


def test_more_partitions_go_through_a_topic() -> None:
    layout = laid_out(word_count(), "app", {"lines": 3})
    first, second = layout.groups
    assert (first.topics, first.tasks, first.state_topic) == (("lines",), 3, None)
    assert (second.topics, second.tasks) == (("app-counts-repartition",), 3)
    made = {
        topic.name: (topic.partitions, topic.configs["cleanup.policy"]) for topic in layout.internal_topics
    }
    assert made == {"app-counts-repartition": (3, "delete"), "app-tasks-1-changelog": (3, "compact")}
    assert [layout.task_number(group, 2) for group in layout.groups] == [2, 5]


def test_repartition_topics_take_the_number_of_what_they_are_joined_with() -> None:
    builder = StreamsBuilder(Serdes.string(), Serdes.string())
    orders = builder.stream("orders").select_key(lambda order: order[:1])
    orders.join(builder.table("customers", "c"), lambda order, customer: order).to("out")
    layout = laid_out(builder.build(), "app", {"orders": 2, "customers": 5})
    counts = {topic.name: topic.partitions for topic in layout.internal_topics}
    assert [each for name, each in counts.items() if name.endswith("-repartition")] == [5]


def test_a_number_that_was_asked_for_is_taken() -> None:
    from moldau.streams import Repartitioned

    builder = StreamsBuilder(Serdes.string(), Serdes.string())
    builder.stream("in").repartition(Repartitioned.with_(name="r", number_of_partitions=4)).to("out")
    layout = laid_out(builder.build(), "app", {"in": 1})
    assert not layout.in_memory
    assert [group.tasks for group in layout.groups] == [1, 4]


def test_global_tables_are_read_whole_by_those_who_look_into_them() -> None:
    builder = StreamsBuilder(Serdes.string(), Serdes.string())
    products = builder.global_table("products", "p")
    builder.stream("orders").join(products, lambda order, product: product, key=lambda order: order).to("out")
    builder.stream("other").to("copy")
    layout = laid_out(builder.build(), "app", {"orders": 2, "other": 2, "products": 3})
    by_topic = {group.topics[0]: group for group in layout.groups}
    assert by_topic["orders"].global_topics == ("products",)
    assert by_topic["other"].global_topics == ()
    assert [str(place) for place in layout.global_places(by_topic["orders"])] == [
        "products-0",
        "products-1",
        "products-2",
    ]


def test_memory_between_partitions_is_refused() -> None:
    with pytest.raises(TopologyError, match="one partition"):
        laid_out(word_count(), "app", {"lines": 2}, in_memory=True)


def test_source_topics_are_those_that_others_write() -> None:
    assert source_topics(word_count()) == ["lines"]
