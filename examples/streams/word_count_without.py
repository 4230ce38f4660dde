"""Counts words without some that say nothing."""

import re

from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder

WITHOUT = {"the", "a", "and"}

builder = StreamsBuilder()

(
    builder.stream("wordcount-input", Consumed.with_(Serdes.string(), Serdes.string()))
    .flat_map_values(lambda line: re.findall(r"\w+", line.lower()))
    .map(lambda key, word: (word, word))
    .filter_not(lambda key, word: key in WITHOUT)
    .group_by_key()
    .count("CountStore")
    .map_values(str)
    .to_stream()
    .to("wordcount-output", Produced.with_(Serdes.string(), Serdes.string()))
)

topology = builder.build()
