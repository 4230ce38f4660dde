"""Counts words, all of them: the first program of every page on Kafka Streams.

moldau streams plan examples/streams/word_count.py
"""

import re

from moldau.streams import Consumed, Materialized, Produced, Serdes, StreamsBuilder

builder = StreamsBuilder()

(
    builder.stream("text-lines", Consumed.with_(Serdes.string(), Serdes.string()))
    .flat_map_values(lambda line: re.findall(r"\w+", line.lower()))
    .group_by(lambda word: word)
    .count(Materialized.as_("counts").with_key_serde(Serdes.string()))
    .to_stream()
    .to("word-counts", Produced.with_(Serdes.string(), Serdes.long()))
)

topology = builder.build()
