"""Pages of pipelines and streams applications, from what these write into their topic."""

import json
from collections.abc import Callable
from typing import Any

from moldau.base.clock import SystemClock
from moldau.spark.query.progress import FAILED, RUNNING, STOPPED, QueryStatus
from moldau.streams import StreamsBuilder
from moldau.streams.topology.plan import plan
from moldau.testing import Broker

TOPIC = "__moldau_pipelines"


def tell(broker: Broker, status: QueryStatus) -> None:
    broker.produce(TOPIC, json.dumps(status.to_json()), key=status.name.encode())


def tell_of_words(broker: Broker, **more: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda value: value).count("counts").to_stream().to("words")
    told = {"state": RUNNING, "lag": ({"lines": 1234},), "processed_rows_per_second": 77.0}
    nodes = plan(builder.build(), lambda topic: f"word-count-{topic}" if "repartition" in topic else topic)
    tell(broker, QueryStatus("word-count", group="word-count", kind="streams", plan=nodes, **(told | more)))


def test_without_any_it_says_how_to_begin(console: Any) -> None:
    page = console.get("/pipelines")
    assert page.status == 200
    assert "moldau pipeline run FILE" in page.words


def test_queries_and_applications_with_their_lag_and_batches(console: Any, broker: Broker) -> None:
    tell(
        broker,
        QueryStatus(
            "shop-totals",
            state=RUNNING,
            lag=({"orders": 42},),
            batch_duration_ms=321,
            processed_rows_per_second=12.0,
        ),
    )
    tell_of_words(broker)
    tell(broker, QueryStatus("shop-old", state=FAILED, error="it <b>broke</b>\nat line 7"))
    page = console.get("/pipelines")
    assert "Spark queries" in page.words
    assert "Streams applications" in page.words
    for words in ("shop-totals", "42", "321 ms", "12 /s", "word-count", "1,234", "failed", "Running 2 of 3"):
        assert words in page.words
    assert "it &lt;b&gt;broke&lt;/b&gt;" in page.text
    assert "at line 7" not in page.text  # the list has the first line
    assert "shop-totals" not in console.get("/pipelines", q="WORD").words


def test_an_application_with_its_picture_and_its_history(console: Any, broker: Broker) -> None:
    for name in ("lines", "words"):
        broker.create_topic(name)
    tell_of_words(broker, lag=({"lines": 900},), batch_duration_ms=20)
    assert "collecting" in console.get("/pipelines/view", name="word-count").words
    tell_of_words(broker, batch_duration_ms=30, dropped={"late": 5})
    page = console.get("/pipelines/view", name="word-count")
    assert page.text.count('class="plot"') == 3
    assert '<a href="/c/local/topics/lines"><g class="box source">' in page.text
    assert '<a href="/c/local/topics/words"><g class="box sink">' in page.text
    assert page.text.count('class="box internal"') == 1
    assert "What it passed over" in page.words
    assert "/c/local/groups/view?group=word-count" in page.text


def test_what_went_wrong_is_told_in_full(console: Any, broker: Broker) -> None:
    tell(broker, QueryStatus("p-q", state=FAILED, pipeline="p", host="box", error="first\nsecond <i>"))
    page = console.get("/pipelines/view", name="p-q")
    assert "first\nsecond &lt;i&gt;" in page.text
    assert "moldau pipeline logs p" in page.words
    assert console.get("/pipelines/view", name="nobody").status == 404


def test_a_stopped_query_has_no_rate(console: Any, broker: Broker) -> None:
    tell(broker, QueryStatus("q", state=STOPPED, processed_rows_per_second=987654.0))
    assert "987,654" not in console.get("/pipelines/view", name="q").words


def test_a_query_that_was_killed_is_silent(make_console: Callable[..., Any], broker: Broker) -> None:
    value = json.dumps(QueryStatus("q", state=RUNNING, host="box").to_json())
    broker.produce(TOPIC, value, key=b"q", timestamp_ms=SystemClock().now_ms() - 3_600_000)
    console = make_console()
    assert "silent" in console.get("/pipelines").words
    assert "It has gone silent" in console.get("/pipelines/view", name="q").words


def test_masks_hold_here_too(make_console: Callable[..., Any], broker: Broker) -> None:
    tell(broker, QueryStatus("q", state=FAILED, error="the card 4111"))
    hidden = make_console(masks=("*:value.error",)).get("/pipelines/view", name="q")
    assert "4111" not in hidden.text
    assert "•••" in hidden.text
    assert make_console(masks=("*:key",)).get("/pipelines/view", name="q").status == 404


def test_nonsense_in_the_topic_harms_nothing(console: Any, broker: Broker) -> None:
    broker.produce(TOPIC, b"\xff\x00", key=b"a")
    broker.produce(
        TOPIC, b'{"state": "running", "lag": [[]], "plan": [{"id": "x", "after": ["x"]}]}', key=b"b"
    )
    broker.produce(TOPIC, b'{"state": "running"}')
    assert "b" in console.get("/pipelines").words
    assert console.get("/pipelines/view", name="b").status == 200
