"""Programs on a real Spark and a real broker, with what they give."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder
from moldau.streams.runner.application import RunningApplication, StreamsOptions, start
from moldau.streams.runner.programs import program_of, program_of_file
from moldau.testing import Broker

#: A machine that is busy with other things takes long to start processes.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).parents[3] / "examples" / "streams"
VECTORS = sorted((Path(__file__).parents[1] / "vectors").glob("*.json"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def run(
    spark: Any, broker: Broker, program: Any, name: str, checkpoint: Path, **given: Any
) -> RunningApplication:
    """Runs a program until all that is there was processed."""
    options = StreamsOptions(broker.bootstrap_servers, **given)
    with start(program, name, spark, checkpoint, options, availableNow=True) as running:
        assert running.query is not None
        running.query.awaitTermination()
        return running


def longs(broker: Broker, topic: str) -> list[tuple[str, int]]:
    return [(r.key.decode(), int.from_bytes(r.value, "big")) for r in broker.records(topic)]


def test_words_are_counted_exactly_once_over_restarts(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Three partitions, so a repartition topic; then once more from the checkpoint, and once for nothing."""
    program = program_of_file(EXAMPLES / "word_count.py")
    broker.create_topic("text-lines", 3)
    for number in range(30):
        broker.produce("text-lines", f"hello kafka {number % 3}", partition=number % 3)
    running = run(spark, broker, program, "words", tmp_path / "c", changelogs=True)
    assert running.progress.records_in == 30 + 90
    assert dict(longs(broker, "word-counts")) == {"hello": 30, "kafka": 30, "0": 10, "1": 10, "2": 10}
    for number in range(6):
        broker.produce("text-lines", "hello again", partition=number % 3)
    run(spark, broker, program, "words", tmp_path / "c", changelogs=True)
    run(spark, broker, program, "words", tmp_path / "c", changelogs=True)
    found = longs(broker, "word-counts")
    assert dict(found) == {"hello": 36, "kafka": 30, "again": 6, "0": 10, "1": 10, "2": 10}
    # Every update once: each word counts up by one.
    for word, count in dict(found).items():
        assert [n for each, n in found if each == word] == list(range(1, count + 1))
    table = {}
    for record in broker.records("words-counts-changelog"):
        table[record.key.decode()] = int.from_bytes(record.value, "big")
    assert table == dict(found)


def test_stores_are_answered_over_http_and_as_a_frame(spark: Any, broker: Broker, tmp_path: Path) -> None:
    from moldau.streams.runner.http_queries import StoreServer
    from moldau.streams.runner.tables import StoreTable

    program = program_of_file(EXAMPLES / "stock_statistics.py")
    broker.create_topic("stocks", 2, {"retention.ms": -1})
    for number in range(4):
        trade = json.dumps({"ticker": "IBM", "price": 160 + number, "size": 1})
        broker.produce("stocks", trade, key="IBM", partition=1, timestamp_ms=7_000 + number)
    running = run(spark, broker, program, "stocks-app", tmp_path / "c")
    server = StoreServer(running.application, 0)

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"{server.url}{path}") as answer:
            return json.load(answer)

    try:
        assert [(s["name"], s["kind"]) for s in get("/stores")] == [("trade-statistics", "window")]
        answer = get("/stores/trade-statistics/IBM?since=6000")
        assert [(w["start"], w["value"]["count"]) for w in answer["windows"]] == [(6_000, 4), (7_000, 4)]
        assert {"topic": "stocks", "partition": 1, "offset": 4} in answer["as_of"]
        assert len(get("/stores/trade-statistics?from=I&to=J&limit=3")["rows"]) == 3
        with pytest.raises(urllib.error.HTTPError) as caught:
            get("/stores/nothing/IBM")
        assert caught.value.code == 404
    finally:
        server.close()
    frame = StoreTable("trade-statistics", running.application).df(spark)
    assert {(row.key, row.start) for row in frame.collect()} == {("IBM", s * 1000) for s in range(3, 8)}


def test_a_record_that_does_not_decode_stops_the_query_or_is_kept(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", Consumed.with_(Serdes.string(), Serdes.long()))
    numbers.map_values(lambda n: n * 2).to("doubled", Produced.with_(Serdes.string(), Serdes.long()))
    program = program_of(builder, "doubling")
    broker.create_topic("numbers", 1)
    for value in ((1).to_bytes(8, "big"), b"bad", (2).to_bytes(8, "big")):
        broker.produce("numbers", value, key="k")
    with pytest.raises(Exception, match="offset 1 of numbers-0 does not decode"):
        run(spark, broker, program, "doubling", tmp_path / "c")
    assert broker.records("doubled") == []
    running = run(spark, broker, program, "doubling", tmp_path / "c", dead_letter_topic="dead")
    assert (running.progress.dropped, running.progress.dead_letters) == (1, 1)
    assert longs(broker, "doubled") == [("k", 2), ("k", 4)]
    (letter,) = broker.records("dead")
    assert letter.value == b"bad"
    assert dict(letter.headers)["__streams.errors.offset"] == b"1"


def test_a_sample_of_each_family_of_vectors(spark: Any, tmp_path: Path) -> None:
    """Every fortieth vector in random micro-batches, and at least one of each family, all in one query."""
    from play import cases
    from play import play as by_engine
    from spark_vectors import SparkPlayer, continues, fails_to_decode, playable_on_spark

    chosen = []
    for path in VECTORS:
        vectors = [
            case
            for _, case, how in cases(path)
            if how is by_engine
            and playable_on_spark(case)
            and not fails_to_decode(case)
            and not continues(case)
        ]
        chosen += [each for each in vectors[::40] if len(each["inputs"]) <= 12] or vectors[:1]
    assert len(chosen) >= 17
    failed = {name: why for name, why in SparkPlayer(spark, tmp_path).play(chosen, 7).items() if why}
    assert failed == {}
