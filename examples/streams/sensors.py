"""Averages of sensors whose readings come out of order: the time is in the reading, and windows wait for late
ones.
"""

from moldau.streams import (
    Consumed,
    EmitStrategy,
    Produced,
    Serdes,
    StreamsBuilder,
    TimeWindows,
)

builder = StreamsBuilder()
readings = Consumed.with_(
    Serdes.string(), Serdes.json(), timestamp_extractor=lambda record, partition_time: record.value["at"]
)

(
    builder.stream("readings", readings)
    .filter(lambda reading: reading["celsius"] is not None)
    .group_by_key()
    .windowed_by(TimeWindows.of_size_and_grace(10_000, 5_000))
    .emit_strategy(EmitStrategy.on_window_close())
    .aggregate(
        lambda: (0, 0.0),
        lambda sensor, reading, so_far: (so_far[0] + 1, so_far[1] + reading["celsius"]),
        "sums",
    )
    .map_values(lambda so_far: so_far[1] / so_far[0])
    .to_stream()
    .to("averages", Produced.with_(Serdes.time_windowed(Serdes.string(), 10_000), Serdes.double()))
)

topology = builder.build()
