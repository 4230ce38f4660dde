"""What is missing in a program is said before it runs."""

from moldau.streams import Repartitioned, Serdes, StreamsBuilder, TimeWindows, UnlimitedWindows
from moldau.streams.topology.advice import advise

STRING = Serdes.string()


def test_missing_serdes_are_errors() -> None:
    builder = StreamsBuilder(default_key_serde=STRING)
    builder.stream("in").to("out")
    one, other = advise(builder.build())
    assert (one.kind, one.problem) == ("error", "no serde for values of topic in")
    assert "Consumed.with_" in one.fix
    assert other.problem == "no serde for values of topic out"
    assert "Produced.with_" in other.fix


def test_state_without_bound_is_remarked() -> None:
    builder = StreamsBuilder(STRING, STRING)
    group = builder.stream("in").group_by_key()
    group.count("all")
    group.windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows")
    group.windowed_by(UnlimitedWindows.of()).count("unlimited")
    builder.table("topic", "mirror")
    found = advise(builder.build())
    assert [each.kind for each in found] == ["remark", "remark"]
    assert "all" in found[0].problem
    assert "unlimited" in found[1].problem


def test_topics_of_a_join_have_as_many_partitions() -> None:
    builder = StreamsBuilder(STRING, STRING)
    builder.stream("a").join(builder.table("b", "B"), lambda a, b: a)
    topology = builder.build()
    assert advise(topology, {"a": 3, "b": 3}) == []
    (error,) = advise(topology, {"a": 3, "b": 2})
    assert error.problem == "Topics not co-partitioned: [{a=3, b=2}]"
    assert "repartition" in error.fix
    (error,) = advise(topology, {"a": 3})
    assert error.problem == "Topic not found: b"


def test_a_repartition_takes_the_number_of_what_it_is_joined_with() -> None:
    builder = StreamsBuilder(STRING, STRING)
    stream = builder.stream("a").repartition(Repartitioned.as_("rp").with_number_of_partitions(4))
    stream.join(builder.table("b", "B"), lambda a, b: a)
    (error,) = advise(builder.build(), {"a": 3, "b": 3})
    assert "Number of partitions [4] of repartition topic [rp-repartition]" in error.problem
