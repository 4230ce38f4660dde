"""The examples, run on a real Spark against a real broker, with the results that their comments promise."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau.pipelines import run_file
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(autouse=True)
def clean(broker: Broker) -> Iterator[None]:
    yield
    broker.reset()


@pytest.fixture
def run(broker: Broker, spark: "SparkSession", tmp_path: Path) -> Any:
    """Runs an example on what is there, until it has seen everything."""

    def run_example(name: str) -> Any:
        return run_file(
            EXAMPLES / name,
            bootstrap_servers=broker.bootstrap_servers,
            home=tmp_path,
            spark=spark,
            available_now=True,
            publish=False,
        )

    return run_example


def newest(broker: Broker, topic: str) -> dict[str, Any]:
    """The last value of each key."""
    return {
        (record.key or b"").decode(): json.loads(record.value or b"null") for record in broker.records(topic)
    }


def produce(broker: Broker, topic: str, *values: Any, keys: list[str] | None = None) -> None:
    if topic not in broker.topics():
        broker.create_topic(topic)
    for index, value in enumerate(values):
        text = value if isinstance(value, str) else json.dumps(value)
        broker.produce(topic, text.encode(), key=keys[index].encode() if keys else None)


def test_words_are_counted_on_after_a_restart(broker: Broker, run: Any) -> None:
    produce(broker, "wordcount-input", "The quick the Quick fox")
    run("word_count.py")
    assert newest(broker, "wordcount-output") == {"quick": 2, "fox": 1}
    produce(broker, "wordcount-input", "A fox!", "")
    (counts,) = run("word_count.py")
    assert (counts.name, counts.rows, counts.total_lag) == ("word_count-counts", 2, 0)
    assert newest(broker, "wordcount-output") == {"quick": 2, "fox": 2, "a": 1}
    assert len(broker.records("wordcount-output")) == 4


def trade(ticker: str, price: float, seconds: float) -> dict[str, Any]:
    return {
        "ticker": ticker,
        "ask_price": price,
        "ask_size": 100,
        "time": f"2026-01-01T00:00:{seconds:06.3f}Z",
    }


@pytest.mark.parametrize(("example", "topic"), [("py", "stockstats-output"), ("sql", "stockstats-sql")])
def test_stock_statistics(broker: Broker, run: Any, example: str, topic: str) -> None:
    produce(broker, "stocks", trade("MMM", 20.0, 7.3), trade("MMM", 30.0, 8.0), trade("AXP", 5.0, 8.0))
    run(f"stock_statistics.{example}")
    found = newest(broker, topic)
    # A trade at 7.3 belongs to the windows from 3 to 7, one at 8.0 to those from 4 to 8.
    assert sorted(found) == [
        *(f"AXP@00:00:0{start}" for start in range(4, 9)),
        *(f"MMM@00:00:0{start}" for start in range(3, 9)),
    ]
    assert found["MMM@00:00:03"] == {
        "ticker_window": "MMM@00:00:03",
        "ticker": "MMM",
        "start": "2026-01-01T00:00:03.000Z",
        "min_price": 20.0,
        "trades": 1,
        "average_price": 20.0,
    }
    both = found["MMM@00:00:04"]
    assert (both["min_price"], both["trades"], both["average_price"]) == (20.0, 2, 25.0)
    assert (found["MMM@00:00:08"]["min_price"], found["MMM@00:00:08"]["trades"]) == (30.0, 1)


def at(seconds: float, **fields: Any) -> dict[str, Any]:
    return {**fields, "time": f"2026-01-01T00:{int(seconds // 60):02}:{seconds % 60:06.3f}Z"}


def test_clicks_are_enriched(broker: Broker, run: Any, spark: "SparkSession", tmp_path: Path) -> None:
    profiles = [
        {"user": 1, "name": "Mat", "zipcode": "94301", "interests": ["Surfing"]},
        {"user": 1, "name": "Mathias", "zipcode": "94301", "interests": ["Surfing", "Biking"]},
        {"user": 2, "name": "Anna", "zipcode": "94302", "interests": ["Ski"]},
    ]
    produce(broker, "user-profiles", *profiles, keys=["1", "1", "2"])
    produce(
        broker,
        "searches",
        at(10, user=1, terms="bikes"),
        at(20, user=2, terms="travel"),
        at(100, user=9, terms="later: time goes on"),
    )
    produce(
        broker,
        "page-views",
        at(10.8, user=1, page="trek"),  # within a second of the search
        at(22.5, user=2, page="hotel"),  # too late for it
        at(30, user=7, page="home"),  # nobody knows this user
        at(100, user=9, page="later"),
    )
    run("click_stream.py")
    found = {value["page"]: value for value in map(json.loads, values(broker, "user-activity"))}
    assert found["trek"] == {
        "user": 1,
        "name": "Mathias",
        "zipcode": "94301",
        "interests": ["Surfing", "Biking"],
        "page": "trek",
        "terms": "bikes",
        "time": "2026-01-01T00:00:10.800Z",
    }
    assert (found["hotel"]["name"], found["hotel"].get("terms")) == ("Anna", None)
    assert (found["home"]["user"], found["home"].get("name")) == (7, None)
    table = spark.read.parquet(str(tmp_path / "click_stream" / "tables" / "user-activity"))
    rows = {row.page: row.terms for row in table.where("zipcode = '94301'").collect()}
    assert rows == {"trek": "bikes"}
    # An update of a profile counts for the views that come after it.
    produce(broker, "user-profiles", {"user": 1, "name": "Matt", "zipcode": "1", "interests": []}, keys=["1"])
    produce(broker, "searches", at(120, user=1, terms="trek"), at(300, user=9, terms="x"))
    produce(broker, "page-views", at(120, user=1, page="again"), at(300, user=9, page="x"))
    run("click_stream.py")
    found = {value["page"]: value for value in map(json.loads, values(broker, "user-activity"))}
    assert (found["again"]["name"], found["again"]["terms"]) == ("Matt", "trek")
    assert found["trek"]["name"] == "Mathias"


def values(broker: Broker, topic: str) -> list[bytes]:
    return [record.value or b"" for record in broker.records(topic)]


def test_small_streams(broker: Broker, run: Any) -> None:
    produce(broker, "TextLinesTopic", "hello", "Ahoj", "abc", keys=["en", "cz", "en"])
    produce(broker, "amounts", "999", "1001", "many", "1e6")
    produce(broker, "topic-A", "a1", "a2", keys=["x", "y"])
    produce(broker, "topic-B", "b1", "b3", keys=["x", "z"])
    trades = [at(0, stock="MMM", price=4.0), at(1, stock="MMM", price=2.0), at(5, stock="AXP", price=9.0)]
    produce(broker, "trades", *trades)
    run("small_streams.py")
    assert sorted((r.key, r.value) for r in broker.records("loud-lines")) == [
        (b"cz", b"AHOJ"),
        (b"en", b"ABC"),
        (b"en", b"HELLO"),
    ]
    assert sorted(values(broker, "large-amounts")) == [b"1001", b"1e6"]
    assert [(r.key, r.value) for r in broker.records("joined")] == [(b"x", b"a1b1")]
    assert newest(broker, "characters") == {"en": 8, "cz": 4}
    hourly = newest(broker, "hourly-prices")
    assert (hourly["MMM"]["lowest"], hourly["MMM"]["mean"], hourly["AXP"]["mean"]) == (2.0, 3.0, 9.0)
    assert newest(broker, "top-10") == {
        "MMM": {"stock": "MMM", "count": 2},
        "AXP": {"stock": "AXP", "count": 1},
    }
