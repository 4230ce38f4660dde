"""The three articles that were bought most, kept up to date: a count for each, then one group for all."""

from typing import Any

from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder

TOP = 3

builder = StreamsBuilder()
Counts = dict[str, int]


def with_count(group: str, article: dict[str, Any], counts: Counts) -> Counts:
    return {**counts, article["name"]: article["count"]}


def without_count(group: str, article: dict[str, Any], counts: Counts) -> Counts:
    return {name: count for name, count in counts.items() if name != article["name"]}


def best(counts: Counts) -> list[list[Any]]:
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [list(each) for each in ranked[:TOP]]


(
    builder.stream("purchases", Consumed.with_(Serdes.string(), Serdes.string()))
    .group_by(lambda customer, article: article)
    .count("bought")
    .group_by(lambda name, count: ("all", {"name": name, "count": count}))
    .aggregate(dict, with_count, without_count, "ranking")
    .map_values(best)
    .to_stream()
    .to("best-sellers", Produced.with_(Serdes.string(), Serdes.json()))
)

topology = builder.build()
