"""Two versions of a program over the same records."""

from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType
from moldau.streams import Consumed, Serdes, StreamsBuilder, Topology
from moldau.streams.versions import MISSING, Difference, TopicDifference, by_time, compare, source_topics


def words(least: int, topic: str = "out") -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed.with_(Serdes.string(), Serdes.string()))
    long = lines.flat_map_values(str.split).filter(lambda word: len(word) >= least)
    long.group_by(lambda word: word).count("counts").to_stream().to(topic)
    return builder.build()


def line(text: str, timestamp: int, topic: str = "lines") -> ConsumerRecord:
    return ConsumerRecord(
        topic, 0, timestamp, timestamp, TimestampType.CREATE_TIME, None, text.encode(), (), 0
    )


RECORDS = [line("a bb a", 1), line("bb ccc", 2), line("other", 3, "another topic")]


def test_the_same_program() -> None:
    (found,) = compare(words(1), words(1), RECORDS)
    assert found == TopicDifference("out", 5, 0, 0, ())


def test_results_that_differ() -> None:
    (found,) = compare(words(1), words(2), RECORDS)
    assert (found.same, found.only_old, found.only_new) == (3, 2, 0)
    assert found.differences == (Difference("a", 0, 1, MISSING),)


def test_another_topic() -> None:
    one, other = compare(words(3), words(3, "out2"), RECORDS)
    assert (one.topic, one.only_old, other.topic, other.only_new) == ("out", 1, "out2", 1)


def test_what_a_program_reads() -> None:
    assert source_topics(words(1)) == ["lines"]


def test_partitions_by_time() -> None:
    partitions = [[line("a", 1), line("c", 9)], [line("b", 2), line("late", 1)], []]
    assert [each.value for each in by_time(partitions)] == [b"a", b"b", b"late", b"c"]
