"""A program for kills: windows by key without a repartition topic, and counts by colour with one."""

from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder, TimeWindows

builder = StreamsBuilder()
texts = Produced.with_(Serdes.string(), Serdes.long())
events = builder.stream("events", Consumed.with_(Serdes.string(), Serdes.string()))
(
    events.group_by_key()
    .windowed_by(TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000))
    .count("windows")
    .to_stream(lambda window, count: window.key)
    .to("OUT-windows", texts)
)
events.group_by(lambda colour: colour).count("colours").to_stream().to("OUT-colours", texts)
topology = builder.build()
