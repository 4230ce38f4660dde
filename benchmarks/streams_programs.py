"""The programs that ``streams_compare`` measures, in our DSL.

Invariant: each does what the program of the same name in ``java/StreamsPrograms.java`` does, with the same
topics: ``in`` (and ``table`` for the join), results of every update to ``out``.
"""

import operator

from moldau.streams import (
    Consumed,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)

_IN = Consumed.with_(Serdes.string(), Serdes.long())
_OUT = Produced.with_(Serdes.string(), Serdes.long())
_HOPPING = TimeWindows.of_size_with_no_grace(5_000).advance_by(1_000)


def count() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", _IN).group_by_key().count("counts").to_stream().to("out", _OUT)
    return builder.build()


def total() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", _IN).group_by_key().reduce(operator.add, "sums").to_stream().to("out", _OUT)
    return builder.build()


def python_count() -> Topology:
    """The same as ``count``, with Python functions for every record."""
    builder = StreamsBuilder()
    rows = builder.stream("in", _IN).filter(lambda value: value >= 0).map_values(lambda value: value + 1)
    counts = rows.group_by_key().aggregate(lambda: 0, lambda key, value, so_far: so_far + 1, "counts")
    counts.to_stream().to("out", _OUT)
    return builder.build()


def hopping() -> Topology:
    """Sum and count of five windows a record; the average is made of them."""
    builder = StreamsBuilder()
    kept = Materialized.as_("averages").with_value_serde(Serdes.json())
    windows = builder.stream("in", _IN).group_by_key().windowed_by(_HOPPING)
    averages = windows.aggregate(lambda: (0, 0), lambda key, value, a: (a[0] + value, a[1] + 1), kept)
    rows = averages.map_values(lambda a: a[0] // a[1]).to_stream(lambda window, value: window.key)
    rows.to("out", _OUT)
    return builder.build()


def join() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("table", "table-store", _IN)
    builder.stream("in", _IN).join(table, lambda value, row: value + row).to("out", _OUT)
    return builder.build()


def sessions() -> Topology:
    builder = StreamsBuilder()
    gap = SessionWindows.of_inactivity_gap_and_grace(500, 1_000)
    counts = builder.stream("in", _IN).group_by_key().windowed_by(gap).count("sessions")
    counts.to_stream(lambda window, value: window.key).to("out", _OUT)
    return builder.build()


PROGRAMS = {
    "count": count,
    #: Run so that only the last value for each key of a batch is a result.
    "count-last": count,
    "total": total,
    "python-count": python_count,
    "hopping": hopping,
    "join": join,
    "sessions": sessions,
}
