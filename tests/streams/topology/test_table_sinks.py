"""Topics in which only the last result for a key matters."""

from moldau.streams import StreamsBuilder, TimeWindows
from moldau.streams.topology.table_sinks import table_sinks


def test_rows_of_tables_under_their_own_keys() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    counts = stream.group_by_key().count()
    counts.to_stream().to("counts")
    counts.map_values(str).to_stream().filter(bool).map_values(len).peek(print).to("lengths")
    windows = TimeWindows.of_size_with_no_grace(10)
    windowed = stream.group_by_key().windowed_by(windows).count()
    windowed.to_stream().to("windows")
    builder.table("rows").to_stream().merge(counts.to_stream()).to("merged")

    stream.to("events")
    windowed.to_stream(lambda window, count: window.key).to("windows-by-key")
    counts.to_stream().select_key(lambda key, count: count).to("by-count")
    counts.to_stream().flat_map_values(lambda count: [count, count]).to("twice")
    stream.map_values(len).merge(counts.to_stream()).to("merged-with-events")
    counts.to_stream().to("both")
    stream.to("both")
    stream.group_by(lambda value: value).count().to_stream().to(lambda key, count: key)
    assert table_sinks(builder.build()) == {"counts", "lengths", "windows", "merged"}
