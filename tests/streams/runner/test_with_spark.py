"""Programs on a real Spark and a real broker, with what they give."""

import json
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
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
    """Three partitions, so a repartition topic; then once more from the checkpoint."""
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
    assert running.progress.reasons == {"undecodable": 1}
    assert longs(broker, "doubled") == [("k", 2), ("k", 4)]
    (letter,) = broker.records("dead")
    assert letter.value == b"bad"
    assert dict(letter.headers)["__streams.errors.offset"] == b"1"


MINUTE = 60_000
#: Example: what comes in (topic, key, value, time), the topic of results, and what must be there in the end.
EXAMPLE_RUNS: dict[str, tuple[list[tuple[str, str, Any, int]], str, Any]] = {
    "word_count_without": (
        [("wordcount-input", "k", "The quick the Quick fox", 1)],
        "wordcount-output",
        [("quick", "1"), ("quick", "2"), ("fox", "1")],
    ),
    "click_stream": (
        [
            ("clicks.user.profile", "1", '{"name": "Mathias"}', 1),
            ("clicks.search", "1", '{"terms": "Trek"}', 1_000),
            ("clicks.pages.views", "1", '{"page": "bikes"}', 1_400),
            ("clicks.pages.views", "9", '{"page": "home"}', 2_000),
            ("clicks.pages.views", "1", '{"page": "end"}', 9_000),
        ],
        "clicks.user.activity",
        [
            ("1", '{"page":"bikes","name":"Mathias","search":"Trek"}'),
            ("9", '{"page":"home","name":null,"search":""}'),
        ],
    ),
    "fraud": (
        [
            ("payments", card, f'{{"country": "{country}"}}', at)
            for card, country, at in [("a", "CZ", 1), ("b", "AT", 20_000), ("a", "BR", 60_000)]
        ],
        "alarms",
        None,
    ),
    "sessions": (
        [
            ("page-views", user, page, minutes * MINUTE)
            for user, page, minutes in [
                ("u", "home", 0),
                ("u", "shop", 20),
                ("v", "home", 25),
                ("w", "x", 120),
            ]
        ],
        "visits-over",
        [("u", '["home","shop"]'), ("v", '["home"]')],
    ),
    "top_n": (
        [("purchases", "c", each, 1) for each in ["pen", "ink", "pen", "cup", "hat", "hat", "hat"]],
        "best-sellers",
        None,
    ),
    "deduplication": (
        [("events", key, f"at {at}", at * MINUTE) for key, at in [("a", 0), ("a", 5), ("b", 6), ("a", 10)]],
        "events-once",
        [("a", "at 0"), ("b", "at 6"), ("a", "at 10")],
    ),
    "sensors": (
        [
            ("readings", "s", f'{{"at": {at}, "celsius": {celsius}}}', 1)
            for at, celsius in [(1_000, 10.0), (12_000, 30.0), (9_000, 20.0), (15_000, 1.0), (2_000, 99.0)]
        ],
        "averages",
        None,
    ),
}


def test_every_other_example_gives_its_results(spark: Any, tmp_path: Path) -> None:
    """All at once, each an application of its own."""
    with Broker() as broker, ExitStack() as stack:
        for records, _, _ in EXAMPLE_RUNS.values():
            for topic in {topic for topic, *_ in records}:
                broker.create_topic(topic, 1, {"retention.ms": -1})
            for topic, key, value, time_ms in records:
                broker.produce(topic, value, key=key, timestamp_ms=time_ms)
        for _, topic, _ in EXAMPLE_RUNS.values():
            broker.create_topic(topic, 1, {"retention.ms": -1})
        options = StreamsOptions(broker.bootstrap_servers, workers=1)
        running = [
            stack.enter_context(
                start(
                    program_of_file(EXAMPLES / f"{name}.py"), name, spark, tmp_path / name, options,
                    availableNow=True,
                )
            )
            for name in EXAMPLE_RUNS
        ]  # fmt: skip
        for each in running:
            assert each.query is not None
            each.query.awaitTermination()
        found = {
            name: [(r.key, r.value.decode("latin-1")) for r in broker.records(topic)]
            for name, (_, topic, _) in EXAMPLE_RUNS.items()
        }
    for name, (_, _, expected) in EXAMPLE_RUNS.items():
        if expected is not None:
            assert [(key.decode(), value) for key, value in found[name]] == expected, name
    assert {key for key, _ in found["fraud"]} == {b"a"}
    assert json.loads(found["top_n"][-1][1]) == [["hat", 3], ["pen", 2], ["cup", 1]]
    ((window, average),) = found["sensors"]
    assert window == b"s" + bytes(8)
    assert struct.unpack(">d", average.encode("latin-1")) == (15.0,)


def test_a_sample_of_each_family_of_vectors(spark: Any, tmp_path: Path) -> None:
    """Every fortieth vector in random micro-batches, and at least one of each family, all in one query."""
    from tests.streams.play import cases
    from tests.streams.play import play as by_engine
    from tests.streams.spark_vectors import SparkPlayer, continues, fails_to_decode, playable_on_spark

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
